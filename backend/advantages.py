"""Advantages of a group's samples from their rewards: group, global, per reward, and GDPO.

Shape legend
    P prompts, G samples of each. Everything is float64 [P, G]; parts is one such tensor a reward.
    A reward of NaN marks a sample that could not be judged. Its advantage is 0, and no mean or std counts it.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from backend.types import Rollout

Mode = Literal["group", "global_std", "per_reward", "gdpo"]
EPS = 1e-8
FLOOR = 1e-6


def moments(value: Tensor, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    """Mean and std [P, 1] of each row's values that are not NaN; NaN where there are too few."""
    count = (~value.isnan()).sum(1, keepdim=True)
    mean = value.nansum(1, keepdim=True) / count
    return mean, ((value - mean).square().nansum(1, keepdim=True) / (count - int(unbiased))).sqrt()


def standardise(value: Tensor, unbiased: bool = True, eps: float = EPS, floor: float = FLOOR) -> Tensor:
    """Each row [G] less its mean and over its std. Rows of one value, or with a std below `floor`, become 0.

    NaN marks a sample that could not be judged: it becomes 0, and the others are compared without it.
    """
    mean, std = moments(value, unbiased)
    return torch.where(value.isnan() | ~(std >= floor), torch.zeros_like(value), (value - mean) / (std + eps))


def global_std(rewards: Tensor, unbiased: bool = True) -> Tensor:
    """Less the mean of the prompt, over the std of all samples of the step (Flow-GRPO, DiffusionNFT)."""
    std = moments(rewards.view(1, -1), unbiased)[1]
    centred = rewards - moments(rewards)[0]
    return torch.where(rewards.isnan() | ~(std >= FLOOR), torch.zeros_like(rewards), centred / (std + EPS))


def per_reward(parts: dict[str, Tensor], weights: dict[str, float], unbiased: bool = True) -> Tensor:
    """Each reward standardised in its group, then summed with the weights (MixGRPO's advantage aggregation).

    A sample that one reward could not judge is left out of all of them.
    """
    failed = torch.stack(list(parts.values())).isnan().any(0)
    known = {name: part.masked_fill(failed, torch.nan) for name, part in parts.items()}
    return torch.stack([weights[name] * standardise(part, unbiased) for name, part in known.items()]).sum(0)


def gdpo(parts: dict[str, Tensor], weights: dict[str, float], unbiased: bool = True) -> Tensor:
    """`per_reward`, standardised once more over all samples of the step (GDPO, as in Flow-Factory)."""
    failed = torch.stack(list(parts.values())).isnan().any(0)
    summed = per_reward(parts, weights, unbiased).masked_fill(failed, torch.nan)
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
