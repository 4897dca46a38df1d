"""Where prompts come from. Which of them a training step uses is a pure function of (seed, step)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from backend.methods.settings import Settings
from backend.prompts import hub, order, reading
from backend.prompts.reading import ENDINGS, Read
from backend.prompts.record import Prompt
from backend.shapes.prompt_lists import PromptLists
from backend.worlds import HELD_OUT, MOVING, SHAPES

PerStep = Annotated[
    int, Field(ge=1, le=4096, description="Prompts P in one training step; each grows one group (ours)")
]
Column = Annotated[
    str | None,
    Field(min_length=1, description="Column that holds the prompts; empty: prompt, prompts, caption or text"),
]
Turns = Annotated[
    tuple[str, ...],
    Field(
        description="Tasks whose prompts take turns, one named twice coming twice as often, such as "
        "[counting, counting, position]; empty: all alike (Flow-GRPO weighs GenEval's tasks 7:5:3:1:1:0)"
    ),
]
SHOWN_FAULTS = 3


class ShapesTrain(Settings):
    """Random prompts of the Shapes world, none held out."""

    source: Literal["shapes-train"] = "shapes-train"
    tasks: Turns = ()
    per_step: PerStep = 4

    @field_validator("tasks")
    @classmethod
    def _are_known(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(SHAPES.lists, tasks)

    def batch(self, seed: int, step: int) -> list[Prompt]:
        return _drawn(SHAPES.lists, self.tasks, self.per_step, seed, step)


class MovingTrain(Settings):
    """Random prompts of the moving-shapes world, none held out."""

    source: Literal["moving-train"] = "moving-train"
    tasks: Turns = ()
    per_step: PerStep = 4

    @field_validator("tasks")
    @classmethod
    def _are_known(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(MOVING.lists, tasks)

    def batch(self, seed: int, step: int) -> list[Prompt]:
        return _drawn(MOVING.lists, self.tasks, self.per_step, seed, step)


WorldPrompts = ShapesTrain | MovingTrain


def _checked(lists: PromptLists[Any], tasks: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := sorted(set(tasks) - set(lists.tasks)):
        raise ValueError(f"{', '.join(unknown)}: not a task of this world; choose among {', '.join(lists.tasks)}")
    return tasks


def _drawn(lists: PromptLists[Any], turns: tuple[str, ...], number: int, seed: int, step: int) -> list[Prompt]:
    """Training prompts. The tasks take turns, so that every step sees as many of them as it can."""
    rng = np.random.default_rng([seed, step, 1])
    turns = turns or lists.tasks
    tasks = [turns[(step * number + i) % len(turns)] for i in range(number)]
    return [Prompt(lists.training(rng, task).text, {"task": task}) for task in tasks]


class FilePrompts(Settings):
    """The prompts of a file."""

    source: Literal["file"] = "file"
    path: str = Field("", description=f"File on the machine that trains: {', '.join(ENDINGS)} (docs/prompts.md)")
    column: Column = None
    per_step: PerStep = 4

    @field_validator("path")
    @classmethod
    def _is_a_kind_of_file(cls, path: str) -> str:
        if Path(path).suffix.lower() not in ENDINGS:
            raise ValueError(f"give a file of prompts that ends in {', '.join(ENDINGS)}")
        return path

    def read(self) -> Read:
        try:
            return reading.read(Path(self.path), self.column)
        except ValueError as error:
            raise ValueError(f"prompts.path: {error}") from error

    def batch(self, seed: int, step: int) -> list[Prompt]:
        return in_turn(self, seed, step)

    @property
    def name(self) -> str:
        return self.path


class DatasetPrompts(Settings):
    """The prompts of a dataset of the Hugging Face hub."""

    source: Literal["dataset"] = "dataset"
    id: str = Field("", description="OWNER/NAME on the hub, or a folder that `datasets` can load")
    subset: str | None = Field(None, min_length=1, description="Configuration of the dataset; empty: its default")
    split: str = Field("train", min_length=1, description="Split, or a slice of it such as train[:1000]")
    revision: str | None = Field(
        None,
        min_length=1,
        description="Revision of its repository; empty: the newest, which may change before a resume",
    )
    column: Column = None
    per_step: PerStep = 4

    @field_validator("id")
    @classmethod
    def _is_given(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("give the id of a dataset, OWNER/NAME")
        return name

    def read(self) -> Read:
        return hub.read(self.id, self.subset, self.split, self.revision, self.column)

    def batch(self, seed: int, step: int) -> list[Prompt]:
        return in_turn(self, seed, step)

    @property
    def name(self) -> str:
        return f"{self.id}, {self.split}"


AnyPrompts = Annotated[ShapesTrain | MovingTrain | FilePrompts | DatasetPrompts, Field(discriminator="source")]


def in_turn(source: FilePrompts | DatasetPrompts, seed: int, step: int) -> list[Prompt]:
    """P prompts of a list, by `backend.prompts.order`; two of the same text are two groups."""
    prompts = usable(source.read(), source.name)
    return [prompts[place] for place in order.places(len(prompts), source.per_step, seed, step)]


def usable(found: Read, name: str) -> tuple[Prompt, ...]:
    """The prompts, if every row is one. Raises ValueError with rows that are none, or when there is no prompt."""
    if found.faults:
        shown = "; ".join(f"line {one.line}: {one.reason}" for one in found.faults[:SHOWN_FAULTS])
        raise ValueError(
            f"prompts: {name} has {len(found.faults)} rows that are no prompts ({shown}); correct or remove them: "
            "`espalier prompts check FILE` lists all"
        )
    if not found.prompts:
        raise ValueError(f"prompts: {name} holds no prompt; write one a line, or choose another source")
    return found.prompts


def listed(name: str) -> tuple[Prompt, ...]:
    """The test list of a built-in world, or the prompts of a file. Raises ValueError for what is neither."""
    if name in HELD_OUT:
        return tuple(Prompt(item.text, {"task": item.task}) for item in HELD_OUT[name].lists.test)
    return usable(reading.read(Path(name)), name)


def held_out(name: str) -> tuple[Prompt, ...]:
    """The prompts that evaluate a run. Raises ValueError as `listed` does, with the field's name."""
    try:
        return listed(name)
    except ValueError as error:
        raise ValueError(f"evaluation.prompts: {error}") from error
