"""The facts a run leaves behind, one JSON object a line in RUN_DIR/events.jsonl."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Event(Record):
    """time: seconds since the epoch, when the event was made."""

    time: float = Field(default_factory=time.time)


class Media(Record):
    """A file below RUN_DIR/media, named by its content. poster: sha256 of a video's still, None for images."""

    sha256: str
    mime: str
    width: int
    height: int
    bytes: int
    path: str
    poster: str | None = None


class Sample(Record):
    """One generated item. seed is that of its own noise generator; task is the prompt's category, if it has one."""

    prompt_index: int
    prompt: str
    seed: int
    media: Media
    scores: dict[str, float | None]
    task: str | None = None


class Sprite(Record):
    """Thumbnails of tree nodes in one image: node nodes[i] = (level, index) stands in cell i, row by row."""

    media: Media
    cell: int
    columns: int
    nodes: list[tuple[int, int]]


class RunStarted(Event):
    """facts: versions, device, git revision, command line; parameters: trained and total counts."""

    kind: Literal["run_started"] = "run_started"
    start_step: int
    total_steps: int
    facts: dict[str, str]
    trained_parameters: int
    total_parameters: int
    forwards_per_prompt: int


class Progress(Event):
    """done of total pieces of one phase ("evaluate", "rollout", ...) inside training step `step`."""

    kind: Literal["progress"] = "progress"
    step: int
    phase: str
    done: int
    total: int


class StepDone(Event):
    """metrics by charted name (train/reward_mean, ...); a value that was not finite is None."""

    kind: Literal["step_done"] = "step_done"
    step: int
    metrics: dict[str, float | None]


class TreeDrawn(Event):
    """The tree of one prompt at one step; drawn again, larger, while the rollout samples (level < T, no credit yet).

    sigmas [T+1], rates [T], parents/advantages/logps/keep: one list a level 1..T, values: one list a level 0..T,
    rewards and parts: one number a leaf, all of the drawn prompt only. logps is None on deterministic steps;
    rewards, parts and values are where nothing could be judged.
    """

    kind: Literal["tree_drawn"] = "tree_drawn"
    step: int
    prompt_index: int
    prompt: str
    level: int
    sigmas: list[float]
    rates: list[float]
    parents: list[list[int]]
    logps: list[list[float | None]]
    values: list[list[float | None]] = []
    advantages: list[list[float]] = []
    keep: list[list[bool]] = []
    rewards: list[float | None] = []
    parts: dict[str, list[float | None]] = {}
    sprite: Sprite | None = None


class SamplesSaved(Event):
    """Items of one named set ("fixed": the watched prompts and seeds; "test": part of the held-out evaluation)."""

    kind: Literal["samples_saved"] = "samples_saved"
    step: int
    collection: str
    samples: list[Sample]


class EvaluationDone(Event):
    """Held-out evaluation of the weights at `step` (0 = the base). report is that of backend.evaluate."""

    kind: Literal["evaluation_done"] = "evaluation_done"
    step: int
    report: dict[str, Any]


class CheckpointSaved(Event):
    """path is relative to RUN_DIR."""

    kind: Literal["checkpoint_saved"] = "checkpoint_saved"
    step: int
    path: str
    bytes: int


class RunEnded(Event):
    """outcome: done (all steps), stopped (asked to), failed (what and where say why)."""

    kind: Literal["run_ended"] = "run_ended"
    step: int
    outcome: Literal["done", "stopped", "failed"]
    what: str = ""
    where: str = ""


AnyEvent = Annotated[
    RunStarted | Progress | StepDone | TreeDrawn | SamplesSaved | EvaluationDone | CheckpointSaved | RunEnded,
    Field(discriminator="kind"),
]

_adapter: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def parse(line: str | bytes) -> AnyEvent:
    """One line of events.jsonl. Raises pydantic.ValidationError when it is not a known event."""
    return _adapter.validate_json(line)


class EventLog:
    """Appends events to a file, a whole line at a time, so that a reader can trust all but an unended last one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __call__(self, event: Event) -> None:
        os.write(self._file, (event.model_dump_json() + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> list[AnyEvent]:
    """All whole events of a file, oldest first."""
    text = path.read_text(encoding="utf-8")
    return [parse(line) for line in text.splitlines() if line.strip() and _is_whole(line)]


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except json.JSONDecodeError:
        return False
    return True
