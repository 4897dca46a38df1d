"""GenEval's rules (Ghosh et al. 2023, arXiv 2310.11513): what is asked for against what a detector found.

A clause of `include` is {"class", "count"} and maybe "color" or "position" = [relation, index of an earlier clause].
Boxes are (left, top, right, bottom) in pixels, y downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Box = tuple[float, float, float, float]
DEAD_ZONE, LEAST = 0.1, 0.5


@dataclass(frozen=True)
class Found:
    """An object: where it is, how sure the detector is, and which colour it has, asked only when it matters."""

    box: Box
    confidence: float
    colour: Callable[[], str]


@dataclass(frozen=True)
class Clause:
    """One thing that a prompt asks for. position: a relation to the objects of another clause, by its index."""

    name: str
    count: int
    colour: str | None = None
    position: tuple[str, int] | None = None


def clauses(include: Any) -> list[Clause]:
    """From a prompt's metadata. Raises ValueError where it is not of GenEval's form."""
    try:
        found = [
            Clause(
                str(one["class"]),
                int(one["count"]),
                one.get("color"),
                (str(one["position"][0]), int(one["position"][1])) if one.get("position") else None,
            )
            for one in include
        ]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"include: {include!r} is not a list of GenEval's clauses ({error!r}); correct it") from error
    for one in found:
        if one.count < 1 or (one.position and not 0 <= one.position[1] < len(found)):
            raise ValueError(
                f"include: {include!r} asks for no object, or for a place beside a clause that is not there"
            )
    return found


def relations(first: Box, second: Box) -> set[str]:
    """How the first box lies to the second: of "left of", "right of", "above", "below".

    The offset of the centres, each coordinate less a dead zone of a tenth of both sizes, over its full length.
    """
    a, b = np.array(first), np.array(second)
    offset = (a[:2] + a[2:] - b[:2] - b[2:]) / 2
    zone = DEAD_ZONE * (np.abs(a[2:] - a[:2]) + np.abs(b[2:] - b[:2]))
    beyond = np.maximum(np.abs(offset) - zone, 0) * np.sign(offset)
    if (np.abs(beyond) < 1e-3).all():
        return set()
    x, y = beyond / np.linalg.norm(offset)
    holds = {"left of": x < -LEAST, "right of": x > LEAST, "above": y < -LEAST, "below": y > LEAST}
    return {name for name, true in holds.items() if true}


def judge(asked: Sequence[Clause], found: Mapping[str, Sequence[Found]]) -> tuple[float, bool]:
    """(graded score, strict correctness) of a picture with the objects `found` by class, surest first.

    The score is the mean over parts. Each clause has 1 - |d| / n for its count, which many superfluous objects make
    negative; with a wrong count, one 0 where a colour or place is asked for; else the same of the objects of the right
    colour, and 1 or 0 for the place. The release counts a wrong place as both 0 and 1; here it is 0.
    """
    parts: list[float] = []
    matched: list[list[Found] | None] = []
    for clause in asked:
        objects = list(found.get(clause.name, ()))
        right = len(objects) == clause.count
        parts.append(_share(clause.count, len(objects)))
        if not right and (clause.colour or clause.position):
            parts.append(0.0)
        if right and clause.colour:
            coloured = sum(one.colour() == clause.colour for one in objects)
            parts.append(_share(clause.count, coloured))
            right = coloured == clause.count
        matched.append(objects if right else None)
    strict = all(one is not None for one in matched)
    for clause, these in zip(asked, matched, strict=True):
        if clause.position and these is not None:
            relation, target = clause.position
            others = matched[target]
            holds = others is not None and all(
                relation in relations(one.box, other.box) for one in these for other in others
            )
            parts.append(float(holds))
            strict = strict and holds
    return sum(parts) / len(parts), strict


def _share(asked: int, there: int) -> float:
    return 1 - abs(asked - there) / asked
