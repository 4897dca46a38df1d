"""Questions to the stored records: final scores, curves and times to a target of one variant over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from backend.benchmarks.records import Distribution, Iterations, Record, Trained, of
from backend.benchmarks.statistics import time_to
from backend.benchmarks.variants import TARGET

Axis = Literal["seconds", "forwards", "steps"]


@dataclass(frozen=True)
class Evidence:
    """All records of one benchmark."""

    records: Sequence[Record]

    @property
    def runs(self) -> list[Trained]:
        return of(Trained, self.records)

    @property
    def iterations(self) -> Iterations | None:
        return next(iter(of(Iterations, self.records)), None)

    @property
    def distribution(self) -> Distribution | None:
        return next(iter(of(Distribution, self.records)), None)

    def seeds(self, part: str, variant: str) -> list[Trained]:
        """The runs of a variant that did not fail, by seed."""
        found = [one for one in self.runs if one.part == part and one.variant == variant and one.outcome == "done"]
        return sorted(found, key=lambda one: one.seed)

    def variants(self, part: str) -> list[str]:
        return sorted({one.variant for one in self.runs if one.part == part})

    def strict(self, part: str, variant: str) -> list[float]:
        """Final overall strict accuracies over the whole held-out list."""
        return [one.strict for one in self.seeds(part, variant) if one.strict is not None]

    def quality(self, part: str, variant: str) -> list[float]:
        return [one.quality for one in self.seeds(part, variant) if one.quality is not None]


def places(run: Trained, axis: Axis) -> list[float]:
    """Where the run's evaluations stand on an axis."""
    if axis == "seconds":
        return [point.seconds for point in run.evaluations]
    return [point.step * (run.forwards.total if axis == "forwards" else 1) for point in run.evaluations]


def reached(run: Trained, target: float = TARGET, axis: Axis = "seconds") -> float | None:
    """Where the held-out strict accuracy of the evaluations on the way first reaches the target."""
    return time_to(target, places(run, axis), [point.strict for point in run.evaluations])


def mean_height(run: Trained) -> float:
    """Held-out strict accuracy averaged over the training time: large where a run rises early."""
    points = run.evaluations
    area = sum((b.seconds - a.seconds) * (a.strict + b.strict) / 2 for a, b in pairwise(points))
    whole = points[-1].seconds - points[0].seconds
    return area / whole if whole else points[-1].strict


def jitter(run: Trained) -> float:
    """Root mean square change of the training reward between neighbouring points of the stored curve."""
    heights = [height for _, height in run.training]
    changes = [(b - a) ** 2 for a, b in pairwise(heights)]
    return float((sum(changes) / len(changes)) ** 0.5) if changes else 0.0
