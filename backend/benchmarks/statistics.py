"""What the document says of several runs: means with their range, time to a target, ratios over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean


@dataclass(frozen=True)
class Spread:
    """Mean, least and greatest of several measurements."""

    mean: float
    low: float
    high: float
    count: int

    def words(self, form: str = ".3f", unit: str = "") -> str:
        """`0.712 (0.698 to 0.731)`, or one number when there is one."""
        if self.count == 1:
            return f"{self.mean:{form}}{unit}"
        return f"{self.mean:{form}}{unit} ({self.low:{form}} to {self.high:{form}})"


def spread(values: Sequence[float]) -> Spread | None:
    """None of nothing."""
    return Spread(fmean(values), min(values), max(values), len(values)) if values else None


def time_to(target: float, places: Sequence[float], heights: Sequence[float]) -> float | None:
    """Where a curve first reaches `target`, linear between its points; None when it does not.

    places rise (seconds, steps or forwards); a curve that starts at the target or above reaches it at places[0].
    """
    for i, height in enumerate(heights):
        if height < target:
            continue
        if i == 0:
            return places[0]
        share = (target - heights[i - 1]) / (height - heights[i - 1])
        return places[i - 1] + share * (places[i] - places[i - 1])
    return None


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread | None:
    """above / below over all pairs of seeds; the mean is the ratio of means."""
    if not above or not below:
        return None
    pairs = [a / b for a, b in product(above, below)]
    return Spread(fmean(above) / fmean(below), min(pairs), max(pairs), len(pairs))


def paired_ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """above / below within each round, so that a slow moment of the machine counts in both."""
    found = [a / b for a, b in zip(above, below, strict=True)]
    return Spread(fmean(found), min(found), max(found), len(found))


def compare(better: Sequence[float], worse: Sequence[float]) -> str:
    """Does `better` lie above `worse`? "yes" or "no" when the ranges of the seeds do not overlap, else "unclear".

    One seed has no range, so nothing is clear with it.
    """
    if not better or not worse:
        return "not measured"
    if len(better) < 2 or len(worse) < 2:
        return "unclear"
    if min(better) > max(worse):
        return "yes"
    return "no" if max(better) < min(worse) else "unclear"
