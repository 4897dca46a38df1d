"""Prompts of a world of scenes: a training generator and a fixed, disjoint test list.

A prompt is a wrapper around a content: "sketch of" + "a red circle and a blue square" + "on black". Every content and
every wrapper occurs in both lists, but a pair of the two belongs to exactly one of them (see `is_held_out`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

HELD_OUT_SHARE = 4
TEST_PROMPTS_PER_TASK = 50

S = TypeVar("S")


@dataclass(frozen=True)
class ScenePrompt(Generic[S]):
    text: str
    task: str
    scene: S


def is_held_out(content: int, wrapper: int) -> bool:
    """Whether (content index, wrapper index) belongs to the test list: one pair in four, on diagonals."""
    return (content + wrapper) % HELD_OUT_SHARE == 0


@dataclass(frozen=True)
class PromptLists(Generic[S]):
    """contents: all scenes of a task, in a fixed order. describe: a scene in words. wrappers: around each."""

    tasks: tuple[str, ...]
    contents: Callable[[str], tuple[S, ...]]
    describe: Callable[[S], str]
    wrappers: tuple[tuple[str, str], ...]
    seed: int

    @cached_property
    def test(self) -> tuple[ScenePrompt[S], ...]:
        """The fixed test list: 50 prompts a task, task after task, never drawn by `training`."""
        chosen: list[ScenePrompt[S]] = []
        for number, task in enumerate(self.tasks):
            rng = np.random.default_rng(self.seed + number)
            scenes = self.contents(task)
            pairs = [(c, w) for c in range(len(scenes)) for w in range(len(self.wrappers)) if is_held_out(c, w)]
            picked = rng.choice(len(pairs), TEST_PROMPTS_PER_TASK, replace=False)
            chosen += [self._wrap(task, scenes[pairs[i][0]], pairs[i][1]) for i in sorted(picked)]
        return tuple(chosen)

    def training(self, rng: np.random.Generator, task: str | None = None) -> ScenePrompt[S]:
        """A random prompt that is not held out: the task uniform, then the content, then the wrapper."""
        task = task or self.tasks[rng.integers(len(self.tasks))]
        scenes = self.contents(task)
        content = int(rng.integers(len(scenes)))
        while is_held_out(content, wrapper := int(rng.integers(len(self.wrappers)))):
            pass
        return self._wrap(task, scenes[content], wrapper)

    def _wrap(self, task: str, scene: S, wrapper: int) -> ScenePrompt[S]:
        opener, closer = self.wrappers[wrapper]
        return ScenePrompt(" ".join(part for part in (opener, self.describe(scene), closer) if part), task, scene)
