"""Prompts of the Shapes world, in GenEval's six tasks: "sketch of" + "a red circle and a blue square" + "on black"."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass

from backend.shapes.prompt_lists import PromptLists

SHAPES = ("circle", "square", "triangle", "cross", "ring", "star")
COLORS = ("red", "green", "blue", "yellow", "purple", "white")
RELATIONS = ("left of", "right of", "above", "below")
NUMBERS = {"two": 2, "three": 3, "four": 4}
TASKS = ("single_object", "two_object", "counting", "colors", "position", "color_attr")
OPENERS = (
    "",
    "photo of",
    "picture of",
    "drawing of",
    "painting of",
    "image of",
    "print of",
    "sketch of",
    "icon of",
    "poster of",
)
CLOSERS = ("", "on black", "at night", "in darkness", "on slate")
WRAPPERS = tuple(itertools.product(OPENERS, CLOSERS))


@dataclass(frozen=True)
class Wanted:
    """One include clause: `count` objects of a shape, of any colour when color is None."""

    shape: str
    color: str | None = None
    count: int = 1


@dataclass(frozen=True)
class Scene:
    """What a prompt asks for. relation holds between wanted[0] and wanted[1]: "left of" means 0 is left of 1."""

    task: str
    wanted: tuple[Wanted, ...]
    relation: str | None = None


def plural(shape: str) -> str:
    return shape + ("es" if shape == "cross" else "s")


def content_text(scene: Scene) -> str:
    first = scene.wanted[0]
    if first.count > 1:
        word = next(word for word, number in NUMBERS.items() if number == first.count)
        return f"{word} {plural(first.shape)}"
    named = [f"a {f'{item.color} ' if item.color else ''}{item.shape}" for item in scene.wanted]
    return f" {scene.relation or 'and'} ".join(named)


@functools.cache
def contents(task: str) -> tuple[Scene, ...]:
    """All scenes of one task, in a fixed order."""
    pairs = list(itertools.permutations(SHAPES, 2))
    match task:
        case "single_object":
            return tuple(Scene(task, (Wanted(shape),)) for shape in SHAPES)
        case "two_object":
            return tuple(Scene(task, (Wanted(a), Wanted(b))) for a, b in pairs)
        case "counting":
            return tuple(Scene(task, (Wanted(shape, None, n),)) for shape in SHAPES for n in NUMBERS.values())
        case "colors":
            return tuple(Scene(task, (Wanted(shape, color),)) for shape in SHAPES for color in COLORS)
        case "position":
            return tuple(Scene(task, (Wanted(a), Wanted(b)), relation) for a, b in pairs for relation in RELATIONS)
        case "color_attr":
            colors = list(itertools.permutations(COLORS, 2))
            return tuple(Scene(task, (Wanted(a, c), Wanted(b, d))) for a, b in pairs for c, d in colors)
    raise ValueError(f"task: {task!r} is not one of {', '.join(TASKS)}")


LISTS = PromptLists(TASKS, contents, content_text, WRAPPERS, seed=20260)

_SHAPE = "|".join(SHAPES)
_OBJECT = rf"an? (?:({'|'.join(COLORS)}) )?({_SHAPE})"
_PAIR = re.compile(rf"\b{_OBJECT}(?: (and|{'|'.join(RELATIONS)}) {_OBJECT})?\b")
_COUNT = re.compile(rf"\b({'|'.join(NUMBERS)}) ({'|'.join(plural(shape) for shape in SHAPES)})\b")


@functools.lru_cache(maxsize=65536)
def parse(text: str) -> Scene:
    """The scene that a prompt asks for. Raises ValueError when the text asks for nothing in this world."""
    lowered = text.lower()
    if found := _COUNT.search(lowered):
        shape = next(shape for shape in SHAPES if plural(shape) == found[2])
        return Scene("counting", (Wanted(shape, None, NUMBERS[found[1]]),))
    found = _PAIR.search(lowered)
    if found is None:
        raise ValueError(
            f"prompt: {text!r} asks for no shape of this world; write for example 'a red circle', 'three stars' "
            "or 'a square left of a ring'"
        )
    color, shape, joint, other_color, other_shape = found.groups()
    if joint is None:
        return Scene("colors" if color else "single_object", (Wanted(shape, color),))
    wanted = (Wanted(shape, color), Wanted(other_shape, other_color))
    if joint in RELATIONS:
        return Scene("position", wanted, joint)
    return Scene("color_attr" if color or other_color else "two_object", wanted)
