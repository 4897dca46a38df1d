"""What a benchmark leaves behind: one small JSON file a run or measurement, enough for the document."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MOST_POINTS = 120


class Stored(BaseModel):
    """fingerprint: of all settings that decide the numbers. command: makes them again. facts: as `backend.facts`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    fingerprint: str
    command: str
    facts: dict[str, str]
    made_on: date = Field(default_factory=date.today)


class Forwards(BaseModel):
    """Latents that the network evaluated in one training step; one with guidance counts twice.

    rollout to sample, evaluated without gradient in the update (old and reference weights), trained with gradient.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rollout: int
    evaluated: int
    trained: int

    @property
    def total(self) -> int:
        return self.rollout + self.evaluated + self.trained


class Point(BaseModel):
    """A held-out evaluation on the way: seconds of training before it, strict accuracy, quality, mean reward."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    step: int
    seconds: float
    strict: float
    quality: float
    reward: float


class Trained(Stored):
    """One training run.

    budget, seconds   of training steps: allowed and used; wall_seconds, cpu_seconds: of the whole process
    rewards           names of what it was trained on; evaluations sum these
    training          (seconds, mean reward of the rollouts) of the run, thinned to `MOST_POINTS`
    final             `backend.evaluate.report` over the whole held-out list after the last step; None when failed
    """

    kind: Literal["trained"] = "trained"
    part: str
    variant: str
    method: str
    seed: int
    overrides: tuple[str, ...]
    rewards: tuple[str, ...]
    budget: float
    outcome: Literal["done", "failed"]
    what: str = ""
    steps: int
    seconds: float
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    forwards: Forwards
    training: list[tuple[float, float]]
    evaluations: list[Point]
    final: dict[str, Any] | None

    @property
    def strict(self) -> float | None:
        """Overall strict accuracy over the whole held-out list after training."""
        return None if self.final is None else float(self.final["strict_accuracy"]["overall"]["mean"])

    @property
    def quality(self) -> float | None:
        return None if self.final is None else float(self.final["quality"]["mean"])

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / max(1, self.steps)


class Iterations(Stored):
    """Seconds of a training step of each variant, one number a round; the variants take turns within a round.

    forwards: of one training step; num_samples: leaves in it.
    """

    kind: Literal["iterations"] = "iterations"
    seconds: dict[str, list[float]]
    forwards: dict[str, Forwards]
    num_samples: dict[str, int]


class Distance(BaseModel):
    """Of a set of samples from independent rollouts: KID (mean and std over subsets), unbiased MMD^2 (RBF)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kid: float
    kid_std: float
    mmd2: float


class Distribution(Stored):
    """distances by name of the compared set; accuracy is that of the feature extractor on pictures it has not seen."""

    kind: Literal["distribution"] = "distribution"
    num_samples: int
    accuracy: float
    distances: dict[str, Distance]


Record = Trained | Iterations | Distribution
_adapter: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])
R = TypeVar("R", bound=Stored)


def write(path: Path, record: Stored) -> None:
    """The whole file or none of it, so that a file that exists is a finished measurement."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".writing")
    temporary.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def read(path: Path) -> Record:
    """Raises ValueError, naming the file, when it is not a record of this version."""
    try:
        return _adapter.validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise ValueError(f"{path} is not a benchmark record of this version; remove it to measure again") from error


def read_all(folder: Path) -> list[Record]:
    """Every record below a folder, in the order of their paths."""
    return [read(path) for path in sorted(folder.rglob("*.json"))]


def of(kind: type[R], found: Sequence[Record]) -> list[R]:
    return [one for one in found if isinstance(one, kind)]


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most `most` points: the means of equal runs of neighbours."""
    size = -(-len(points) // most)
    blocks = [points[start : start + size] for start in range(0, len(points), max(1, size))]
    return [
        (round(sum(x for x, _ in block) / len(block), 3), round(sum(y for _, y in block) / len(block), 5))
        for block in blocks
    ]
