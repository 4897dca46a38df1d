"""Advantages of a group's samples from their rewards: group, global, per reward, and GDPO.

Shape legend
    P prompts, G samples of each. Everything is float64 [P, G]; parts is one such tensor a reward.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from backend.types import Rollout

Mode = Literal["group", "global_std", "per_reward", "gdpo"]
EPS = 1e-8
FLOOR = 1e-6


def standardise(value: Tensor, unbiased: bool = True, eps: float = EPS, floor: float = FLOOR) -> Tensor:
    """Each row [G] less its mean and over its std. Rows of one value, or with a std below `floor`, become 0."""
    if value.shape[1] == 1:
        return torch.zeros_like(value)
    centred = value - value.mean(1, keepdim=True)
    std = value.std(1, keepdim=True, correction=int(unbiased))
    return torch.where(std < floor, torch.zeros_like(value), centred / (std + eps))


def global_std(rewards: Tensor, unbiased: bool = True) -> Tensor:
    """Less the mean of the prompt, over the std of all samples of the step (Flow-GRPO, DiffusionNFT)."""
    if rewards.numel() == 1:
        return torch.zeros_like(rewards)
    std = rewards.std(correction=int(unbiased))
    centred = rewards - rewards.mean(1, keepdim=True)
    return torch.zeros_like(rewards) if std < FLOOR else centred / (std + EPS)


def per_reward(parts: dict[str, Tensor], weights: dict[str, float], unbiased: bool = True) -> Tensor:
    """Each reward standardised in its group, then summed with the weights (MixGRPO's advantage aggregation)."""
    return torch.stack([weights[name] * standardise(part, unbiased) for name, part in parts.items()]).sum(0)


def gdpo(parts: dict[str, Tensor], weights: dict[str, float], unbiased: bool = True) -> Tensor:
    """`per_reward`, standardised once more over all samples of the step (GDPO, as in Flow-Factory)."""
    summed = per_reward(parts, weights, unbiased)
    return standardise(summed.view(1, -1), unbiased).view_as(summed)


def of(rollout: Rollout, mode: Mode, clip: float, unbiased: bool = True) -> Tensor:
    """Advantages [P, G] of a judged rollout, clipped to [-clip, clip]."""
    assert rollout.rewards is not None
    rewards = rollout.rewards.double()
    if mode == "group":
        found = standardise(rewards, unbiased)
    elif mode == "global_std":
        found = global_std(rewards, unbiased)
    else:
        combine = per_reward if mode == "per_reward" else gdpo
        parts = {name: part.double() for name, part in rollout.parts.items()}
        found = combine(parts, rollout.part_weights, unbiased)
    return found.clamp(-clip, clip)
