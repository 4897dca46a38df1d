"""Several rewards of the same frames, and what becomes of samples that a reward cannot judge.

Shape legend
    N samples. A score of NaN marks a sample that could not be judged: a server that did not answer, an answer without
    a number. It is left out of training and of means, because any number in its place would be a judgement.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backend.types import MetadataReward, Reward

logger = logging.getLogger(__name__)


class RewardFailed(RuntimeError):
    """A reward could not judge what it was given; the message says why."""


@dataclass(frozen=True)
class Verdicts:
    """parts: each reward alone, raw, float64 [N]; reasons: why a reward judged nothing at all, by its name."""

    parts: dict[str, Tensor]
    reasons: dict[str, str]


def score(
    rewards: Sequence[Reward | MetadataReward],
    frames: Tensor,
    prompts: Sequence[str],
    metadata: Sequence[Mapping[str, Any]],
) -> Verdicts:
    """Ask each reward. One that fails gives NaN for all N. metadata: N, what the prompts' source says of them."""
    parts, reasons = {}, {}
    for one in rewards:
        try:
            if isinstance(one, MetadataReward):
                parts[one.name] = one.score(frames, prompts, metadata)
            else:
                parts[one.name] = one.score(frames, prompts)
        except RewardFailed as error:
            reasons[one.name] = str(error)
            parts[one.name] = torch.full((len(frames),), torch.nan, dtype=torch.float64)
            logger.warning("reward %s judged none of %d samples: %s", one.name, len(frames), error)
    return Verdicts(parts, reasons)


def total(parts: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """The weighted sum, NaN where any reward could not judge.

    Raises RewardFailed when that is everywhere, and for a number that is infinite.
    """
    found = torch.stack([weights[name] * part for name, part in parts.items()]).sum(0)
    if found.isinf().any():
        infinite = [name for name, part in parts.items() if part.isinf().any()]
        raise RewardFailed(f"rewards: {', '.join(infinite)} became infinite")
    if found.isnan().all():
        failed = {name: int(part.isnan().sum()) for name, part in parts.items() if part.isnan().any()}
        counts = ", ".join(f"{name} failed on {count} of {found.numel()} samples" for name, count in failed.items())
        raise RewardFailed(f"rewards: no sample could be judged: {counts}")
    return found


def failures(parts: Mapping[str, Tensor]) -> dict[str, float]:
    """`train/reward_failed_<name>`: samples that a reward could not judge; rewards that judged all are left out."""
    counts = {name: float(part.isnan().sum()) for name, part in parts.items()}
    return {f"train/reward_failed_{name}": count for name, count in counts.items() if count}


def each(name: str, ask: Callable[[int], float], count: int, at_once: int) -> Tensor:
    """ask(0) .. ask(count - 1), `at_once` at a time -> float64 [count], NaN where ask raises RewardFailed.

    Raises RewardFailed with the first reason when all do.
    """
    reasons: list[str] = []

    def one(index: int) -> float:
        try:
            return ask(index)
        except RewardFailed as error:
            reasons.append(str(error))
            return math.nan

    with ThreadPoolExecutor(at_once) as pool:
        found = torch.tensor(list(pool.map(one, range(count))), dtype=torch.float64)
    if len(reasons) == count:
        raise RewardFailed(reasons[0])
    if reasons:
        logger.warning("reward %s: %d of %d requests failed, first: %s", name, len(reasons), count, reasons[0])
    return found
