"""Tiny real policies: the exact velocity of Gaussian data, and small perceptrons conditioned on the prompt's length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from backend import rollout
from backend.types import Plan, Policy, Rollout, Weights


@dataclass(frozen=True)
class Lengths:
    """One number a prompt: [P]."""

    rows: Tensor

    def take(self, rows: Tensor) -> Lengths:
        return Lengths(self.rows[rows])


def encode(prompts: Sequence[str]) -> Lengths:
    return Lengths(torch.tensor([len(prompt) / 10 for prompt in prompts], dtype=torch.float64))


class GaussianPolicy:
    """The exact velocity of data N(mean, diag(std^2)); a prompt changes nothing."""

    device = torch.device("cpu")

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = torch.tensor(mean, dtype=torch.float64)
        self.std = torch.tensor(std, dtype=torch.float64)
        self.latent_shape = (len(mean),)

    def encode(self, prompts: Sequence[str]) -> Lengths:
        return encode(prompts)

    def velocity(
        self, x: Tensor, sigma: Tensor, cond: Lengths, weights: Weights = "current", guidance: float | None = None
    ) -> Tensor:
        return gaussian_velocity(x, sigma.reshape(-1, 1), self.mean.to(x), self.std.to(x))

    def decode(self, x0: Tensor) -> Tensor:
        return x0.reshape(len(x0), 1, 1, 1, -1)

    def track_old(self, decay: float) -> None:
        """Nothing is trained."""


def gaussian_velocity(x: Tensor, sigma: Tensor | float, mean: Tensor, std: Tensor) -> Tensor:
    """E[eps - x0 | x] for data N(mean, std^2): both expectations are linear in x."""
    variance = (1 - sigma) ** 2 * std**2 + sigma**2
    return (sigma - (1 - sigma) * std**2) / variance * (x - (1 - sigma) * mean) - mean


class Perceptron(nn.Module):
    """A random two-layer network of (x, sigma, prompt), in float64 unless told; latents are 2 x 2."""

    device = torch.device("cpu")
    latent_shape = (2, 2)

    def __init__(self, seed: int = 0, hidden: int = 32, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, 4)).to(dtype)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        self.batches: list[int] = []
        self.copies = {name: self._copy() for name in ("reference", "old")}

    def _copy(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.layers.named_parameters()}

    def track_old(self, decay: float) -> None:
        for name, value in self.layers.named_parameters():
            self.copies["old"][name].lerp_(value.detach(), 1 - decay)

    def encode(self, prompts: Sequence[str]) -> Lengths:
        return encode(prompts)

    def velocity(
        self, x: Tensor, sigma: Tensor, cond: Lengths, weights: Weights = "current", guidance: float | None = None
    ) -> Tensor:
        self.batches.append(len(x))
        features = torch.cat([x.flatten(1), sigma[:, None], cond.rows.to(x)[:, None]], dim=1)
        if weights == "current":
            return self.layers(features).view_as(x)
        out: Tensor = torch.func.functional_call(self.layers, self.copies[weights], (features,))
        return out.view_as(x)

    def decode(self, x0: Tensor) -> Tensor:
        return x0.reshape(len(x0), 1, 1, 2, 2)

    def gradient(self) -> Tensor:
        """All gradients in one vector; zero where none has been accumulated."""
        flat = [p.grad.flatten() if p.grad is not None else torch.zeros(p.numel()).to(p) for p in self.parameters()]
        return torch.cat(flat)


def generators(num_prompts: int, seed: int = 0) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(1000 * seed + index) for index in range(num_prompts)]


def sampled(
    policy: Policy, plan: Plan, prompts: Sequence[str], seed: int = 0, dtype: torch.dtype = torch.float64
) -> Rollout:
    """A rollout whose only reward is the mean of the leaf's latent."""
    grown = rollout.sample(policy, prompts, plan, generators(len(prompts), seed), dtype=dtype)
    rewards = grown.states[-1].flatten(2).mean(2).double()
    return replace(grown, rewards=rewards, parts={"mean": rewards}, part_weights={"mean": 1.0})
