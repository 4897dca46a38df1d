"""Losses of reinforcement learning: tensors in, tensors out.

Shape legend
    N actions, M Gaussians, D... latent dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_ratio(log_ratios: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """PPO's loss of each action, [N] -> [N]: max(-rho A, -clamp(rho, 1 - clip, 1 + clip) A), rho = exp(log_ratio).

    The larger of the two losses never rewards leaving the trust region, and still pulls back an action that left it
    the wrong way (Schulman et al. 2017, eq. 7).
    """
    ratios = log_ratios.exp()
    return torch.maximum(-ratios * advantages, -ratios.clamp(1 - clip, 1 + clip) * advantages)


def clamped_ratio(log_ratios: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """DPOK's loss of each action, [N] -> [N]: -clamp(rho, 1 - clip, 1 + clip) A.

    Without PPO's maximum, an action outside the trust region has no gradient on either side, whatever its advantage.
    """
    return -log_ratios.exp().clamp(1 - clip, 1 + clip) * advantages


def gaussian_kl(mean: Tensor, other: Tensor, std: Tensor) -> Tensor:
    """KL of N(mean, std^2 I) from N(other, std^2 I), averaged over the latent dimensions: [M, D...] -> [M].

    It is symmetric in the means. std is [M], or a scalar, and positive.
    """
    return ((mean - other) ** 2).flatten(1).mean(1) / (2 * std**2)


def guarded_log_ratio(x: Tensor, mean: Tensor, old: Tensor, std: Tensor) -> Tensor:
    """GRPO-Guard's log-ratio of samples x [N, D...] of N(old, std^2 I): the mean over dimensions of xi (mean - old).

    xi = (x - old) / std is the noise that was drawn. The paper writes (log p - log p_old + KL) std, which is the same
    number; this form has no large terms that cancel. Its expectation over xi is 0 and its spread does not depend on
    std, so one clip range fits all steps. std is [N].
    """
    noise = (x - old) / std.reshape(-1, *(1,) * (x.dim() - 1))
    return (noise * (mean - old)).flatten(1).mean(1)
