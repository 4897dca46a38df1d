"""Prompts of the moving-shapes world, in three tasks, with a training generator and a fixed, disjoint test list.

A prompt is a wrapper around a content: "clip of" + "a red circle moves right" + "on black". Every content and every
wrapper occurs in both lists, but a pair of the two belongs to exactly one of them (see `is_held_out`).
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass

import numpy as np

from backend.shapes.prompts import COLORS

SHAPES = ("circle", "square", "triangle", "cross")
DIRECTIONS = {"right": (1, 0), "left": (-1, 0), "up": (0, -1), "down": (0, 1)}  # x to the right, y downwards
TASKS = ("move", "color_move", "two_move")
OPENERS = ("", "video of", "clip of", "film of", "animation of")
CLOSERS = ("", "on black", "at night", "in darkness", "on slate")
WRAPPERS = tuple(itertools.product(OPENERS, CLOSERS))
HELD_OUT_SHARE = 4
TEST_PROMPTS_PER_TASK = 50


@dataclass(frozen=True)
class Mover:
    """One object that the prompt asks for, of any colour when color is None."""

    shape: str
    color: str | None
    direction: str


@dataclass(frozen=True)
class MovingScene:
    """What a prompt asks for: its objects, and nothing else, each on its way. Two move along the same axis."""

    task: str
    movers: tuple[Mover, ...]


@dataclass(frozen=True)
class MovingPrompt:
    text: str
    scene: MovingScene


def content_text(scene: MovingScene) -> str:
    named = [f"a {f'{one.color} ' if one.color else ''}{one.shape} moves {one.direction}" for one in scene.movers]
    return " and ".join(named)


def _along_one_axis(one: str, other: str) -> bool:
    return (DIRECTIONS[one][0] == 0) == (DIRECTIONS[other][0] == 0)


@functools.cache
def contents(task: str) -> tuple[MovingScene, ...]:
    """All scenes of one task, in a fixed order."""
    match task:
        case "move":
            return tuple(MovingScene(task, (Mover(s, None, d),)) for s in SHAPES for d in DIRECTIONS)
        case "color_move":
            return tuple(MovingScene(task, (Mover(s, c, d),)) for s in SHAPES for c in COLORS for d in DIRECTIONS)
        case "two_move":
            shapes, colors = itertools.permutations(SHAPES, 2), tuple(itertools.permutations(COLORS, 2))
            ways = [pair for pair in itertools.product(DIRECTIONS, repeat=2) if _along_one_axis(*pair)]
            return tuple(
                MovingScene(task, (Mover(a, c, there), Mover(b, d, back)))
                for a, b in shapes
                for c, d in colors
                for there, back in ways
            )
    raise ValueError(f"task: {task!r} is not one of {', '.join(TASKS)}")


def is_held_out(content: int, wrapper: int) -> bool:
    """Whether (content index, wrapper index) belongs to the test list: one pair in four, on diagonals."""
    return (content + wrapper) % HELD_OUT_SHARE == 0


def _wrap(scene: MovingScene, wrapper: int) -> MovingPrompt:
    opener, closer = WRAPPERS[wrapper]
    return MovingPrompt(" ".join(part for part in (opener, content_text(scene), closer) if part), scene)


@functools.cache
def test_prompts() -> tuple[MovingPrompt, ...]:
    """The fixed test list: 50 prompts a task, task after task, never drawn by `training_prompt`."""
    chosen: list[MovingPrompt] = []
    for number, task in enumerate(TASKS):
        rng = np.random.default_rng(30260 + number)
        scenes = contents(task)
        pairs = [(c, w) for c in range(len(scenes)) for w in range(len(WRAPPERS)) if is_held_out(c, w)]
        picked = rng.choice(len(pairs), TEST_PROMPTS_PER_TASK, replace=False)
        chosen += [_wrap(scenes[pairs[i][0]], pairs[i][1]) for i in sorted(picked)]
    return tuple(chosen)


def training_prompt(rng: np.random.Generator, task: str | None = None) -> MovingPrompt:
    """A random prompt that is not held out: the task uniform, then the content, then the wrapper."""
    scenes = contents(task or TASKS[rng.integers(len(TASKS))])
    content = int(rng.integers(len(scenes)))
    while is_held_out(content, wrapper := int(rng.integers(len(WRAPPERS)))):
        pass
    return _wrap(scenes[content], wrapper)


_MOVER = re.compile(rf"\ban? (?:({'|'.join(COLORS)}) )?({'|'.join(SHAPES)}) moves ({'|'.join(DIRECTIONS)})\b")


@functools.lru_cache(maxsize=65536)
def parse(text: str) -> MovingScene:
    """The scene that a prompt asks for. Raises ValueError when the text asks for nothing in this world."""
    found = [Mover(shape, color or None, direction) for color, shape, direction in _MOVER.findall(text.lower())]
    if not found:
        raise ValueError(
            f"prompt: {text!r} asks for no moving shape; write for example 'a red circle moves right' or "
            "'a blue square moves up and a white cross moves down'"
        )
    if len(found) > 2 or len({one.shape for one in found}) < len(found):
        raise ValueError(f"prompt: {text!r} names {len(found)} objects; one, or two of different shapes, can be judged")
    if len(found) == 2:
        if not _along_one_axis(found[0].direction, found[1].direction):
            raise ValueError(f"prompt: {text!r} sends two objects along different axes; let both move along one")
        return MovingScene("two_move", tuple(found))
    return MovingScene("color_move" if found[0].color else "move", tuple(found))
