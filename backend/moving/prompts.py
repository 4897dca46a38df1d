"""Prompts of the moving-shapes world, in three tasks: "clip of" + "a red circle moves right" + "on black"."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass

from backend.shapes.prompt_lists import PromptLists
from backend.shapes.prompts import COLORS

SHAPES = ("circle", "square", "triangle", "cross")
DIRECTIONS = {"right": (1, 0), "left": (-1, 0), "up": (0, -1), "down": (0, 1)}  # x to the right, y downwards
TASKS = ("move", "color_move", "two_move")
OPENERS = ("", "video of", "clip of", "film of", "animation of")
CLOSERS = ("", "on black", "at night", "in darkness", "on slate")
WRAPPERS = tuple(itertools.product(OPENERS, CLOSERS))


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


LISTS = PromptLists(TASKS, contents, content_text, WRAPPERS, seed=30260)

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
