"""Losses of reinforcement learning: tensors in, tensors out."""

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
