"""The numbers of a training step under their charted names."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from backend import advantages
from backend.rewards import judging
from backend.types import Credit, Rollout


def means(updates: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of each number the mean over the updates that have it."""
    seen: dict[str, list[float]] = {}
    for metrics in updates:
        for name, value in metrics.items():
            seen.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in seen.items()}


def of_groups(rollout: Rollout, credit: Credit) -> dict[str, float]:
    """Rewards and advantages of the groups of all processes."""
    assert rollout.rewards is not None
    rewards = rollout.rewards
    spread = advantages.moments(rewards, unbiased=False)[1]
    kept = torch.cat([a[k.to(a.device)] for a, k in zip(credit.advantages, credit.keep, strict=True)])
    metrics = {
        "train/reward_mean": float(rewards.nanmean()),
        "train/reward_std": float(spread.nanmean()),
        "train/zero_std_ratio": float((~(spread >= 1e-6)).double().mean()),
        "train/advantage_abs_mean": float(kept.abs().mean()),
    }
    each = {f"train/reward_{name}": float(part.nanmean()) for name, part in rollout.parts.items()}
    return metrics | each | judging.failures(rollout.parts)


def finite_or_none(metrics: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
