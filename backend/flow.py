"""Rectified-flow maths: noising, time grids, SDE steps, Gaussian log-probabilities and a second-order ODE solver.

Shape legend
    N latents, D... latent dimensions, T steps. sigma runs from 1 (noise) to 0 (data):
    x = (1 - sigma) x0 + sigma eps, v = eps - x0, so x0 = x - sigma v and eps = x + (1 - sigma) v.

sigma, sigma_next, rate, eta and std are each a number, a scalar tensor, or one value a latent (tensor [N]).
Coefficients are formed in float64 and only then cast to the dtype of x: a step gives the same bits whether its latents
come from one level (scalars) or from several (tensors [N]).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from backend.types import Noise

Scalar = float | Tensor


def noise(x0: Tensor, eps: Tensor, sigma: Scalar) -> Tensor:
    """Data [N, D...] and noise [N, D...] -> the latent between them at sigma."""
    sigma = _double(sigma)
    return _like(1 - sigma, x0) * x0 + _like(sigma, x0) * eps


def predict_x0(x: Tensor, v: Tensor, sigma: Scalar) -> Tensor:
    """The data that x [N, D...] would reach by following v [N, D...] straight to sigma = 0."""
    return x - _like(_double(sigma), x) * v


def shift(sigma: Tensor, s: float) -> Tensor:
    """Time shift s sigma / (1 + (s - 1) sigma): s > 1 spends more steps near the noise (Stable Diffusion 3, eq. 23)."""
    return s * sigma / (1 + (s - 1) * sigma)


def grid(num_steps: int, s: float = 1.0) -> Tensor:
    """sigmas float64 [T+1] from exactly 1 to exactly 0, evenly spaced and then shifted by s."""
    return shift(torch.linspace(1, 0, num_steps + 1, dtype=torch.float64), s)


def dance_rates(sigmas: Tensor, eta: float) -> Tensor:
    """Diffusion g(sigma_i) = eta of each step, float64 [T] (DanceGRPO)."""
    return torch.full((len(sigmas) - 1,), eta, dtype=torch.float64)


def flow_sde_rates(sigmas: Tensor, a: float) -> Tensor:
    """g(sigma_i) = a sqrt(sigma_i / (1 - sigma_i)), float64 [T] (Flow-GRPO).

    It diverges at sigma = 1, where the rate of sigma_1 stands in; the drift keeps the true sigma, as in the release.
    """
    starts = sigmas[:-1].double()
    finite = torch.where(starts == 1, sigmas[1].double(), starts)
    return a * torch.sqrt(finite / (1 - finite))


def sde_mean_std(x: Tensor, v: Tensor, sigma: Scalar, sigma_next: Scalar, rate: Scalar) -> tuple[Tensor, Tensor]:
    """One Euler-Maruyama step of the SDE that keeps the marginals of dx = v dt, for any diffusion rate g >= 0.

    mean = x - D (v + g^2 / (2 sigma) (x + (1 - sigma) v)),  std = g sqrt(D),  D = sigma - sigma_next.

    x and v are [N, D...]; returns the mean [N, D...] and the std (scalar or [N], dtype of x). Rate 0 is the ODE step.
    """
    sigma, sigma_next, rate = _double(sigma), _double(sigma_next), _double(rate)
    delta = sigma - sigma_next
    pull = rate**2 / (2 * sigma)
    mean = x - _like(delta, x) * (v + _like(pull, x) * (x + _like(1 - sigma, x) * v))
    return mean, (rate * delta.sqrt()).to(x)


def cps_mean_std(x: Tensor, v: Tensor, sigma: Scalar, sigma_next: Scalar, eta: Scalar) -> tuple[Tensor, Tensor]:
    """Coefficients-preserving step (FlowCPS): std = sigma_next sin(eta pi / 2), which is 0 on the last step."""
    return _remix(x, v, sigma, sigma_next, _double(sigma_next) * torch.sin(_double(eta) * math.pi / 2))


def ddim_mean_std(x: Tensor, v: Tensor, sigma: Scalar, sigma_next: Scalar, eta: Scalar) -> tuple[Tensor, Tensor]:
    """DDIM-style step (DiffusionNFT, App. B.1): its noise shrinks with the step, so marginals converge."""
    t, s = _double(sigma), _double(sigma_next)
    kept = (s * (1 - t) / (t * (1 - s))) ** 2  # 0 at t = 1, where a step from pure noise keeps nothing of its noise
    return _remix(x, v, sigma, sigma_next, _double(eta) * s * torch.sqrt(1 - kept))


def mean_std(
    x: Tensor, v: Tensor, sigma: Scalar, sigma_next: Scalar, rate: Scalar, noise: Noise = "sde"
) -> tuple[Tensor, Tensor]:
    """The step that a plan's `noise` names. A rate of 0 is the Euler ODE step with each of them."""
    step = {"sde": sde_mean_std, "cps": cps_mean_std, "ddim": ddim_mean_std}[noise]
    return step(x, v, sigma, sigma_next, rate)


def log_prob(x: Tensor, mean: Tensor, std: Scalar) -> Tensor:
    """log N(x; mean, std^2 I) averaged (not summed) over the latent dimensions: [N, D...] -> [N].

    The average is what clip ranges near 1e-4 are made for; times the number of dimensions it is the log-density.
    Computed in float32, or float64 when the inputs are. Raises ValueError on a std of 0: such a step has no density.
    """
    dtype = torch.promote_types(mean.dtype, torch.float32)
    x, mean, std = x.to(dtype), mean.to(dtype), torch.as_tensor(std, dtype=dtype, device=mean.device)
    if (std <= 0).any():
        raise ValueError(f"std: must be positive, got {float(std.min())}; leave deterministic steps out of the loss")
    z = (x - mean) / _like(std, mean)
    return -0.5 * (z * z).flatten(1).mean(1) - std.log() - 0.5 * math.log(2 * math.pi)


def dpm_2m_step(
    x: Tensor, x0: Tensor, before: tuple[Tensor, float] | None, sigma: Scalar, sigma_next: Scalar
) -> Tensor:
    """One step of DPM-Solver++ 2M with data prediction (MixGRPO, App. 9, eq. 19-21); sigmas are scalars.

    x0 is predicted at sigma; before holds the prediction of the preceding step and its sigma. Without it, from pure
    noise (log-SNR -inf) and to data (+inf), the step is first order, which is Euler's, and so is the one after pure
    noise, whose predecessor is infinitely long.
    """
    sigma, sigma_next = _double(sigma), _double(sigma_next)
    target = x0
    if before is not None and sigma_next > 0:
        earlier, at = before
        h = _log_snr(sigma_next) - _log_snr(sigma)
        half_inverse_ratio = h / (2 * (_log_snr(sigma) - _log_snr(_double(at))))
        target = x0 + _like(half_inverse_ratio, x) * (x0 - earlier)
    gain = (1 - sigma_next) - (1 - sigma) * sigma_next / sigma
    return _like(sigma_next / sigma, x) * x + _like(gain, x) * target


def dpm_solver_2m(velocity: Callable[[Tensor, Tensor], Tensor], x: Tensor, sigmas: Tensor) -> Tensor:
    """Noise x [N, D...] -> data by DPM-Solver++ 2M. velocity(x, sigma) takes a scalar sigma."""
    before: tuple[Tensor, float] | None = None
    for sigma, sigma_next in pairwise(sigmas.double()):
        x0 = predict_x0(x, velocity(x, sigma), sigma)
        x = dpm_2m_step(x, x0, before, sigma, sigma_next)
        before = x0, float(sigma)
    return x


def _log_snr(sigma: Tensor) -> Tensor:
    return torch.log((1 - sigma) / sigma)


def _remix(x: Tensor, v: Tensor, sigma: Scalar, sigma_next: Scalar, std: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted data and predicted noise, mixed for sigma_next; std of the noise is fresh, the rest is kept."""
    sigma, sigma_next = _double(sigma), _double(sigma_next)
    x0 = x - _like(sigma, x) * v
    eps = x + _like(1 - sigma, x) * v
    mean = _like(1 - sigma_next, x) * x0 + _like(torch.sqrt(sigma_next**2 - std**2), x) * eps
    return mean, std.to(x)


def _double(value: Scalar) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def _like(coefficient: Tensor, x: Tensor) -> Tensor:
    """In the dtype and on the device of x [N, D...], with [N] spread over the trailing dimensions."""
    coefficient = coefficient.to(x)
    return coefficient if coefficient.dim() == 0 else coefficient.reshape(-1, *(1,) * (x.dim() - 1))
