"""An exact verifier for Shapes pictures, in the manner of GenEval: detect objects, then check each clause.

Detection: a pixel is a blend of the ground and one palette colour; connected pixels of one colour that are mostly
covered form an object; its shape is the template that overlaps it best. What resembles no template still counts as an
object, of unknown shape, so that debris makes a picture wrong.
Rules: those of GenEval (arXiv 2310.11513), with exact counts, and position by the offset of centres with a dead zone.
The graded score gives each clause its parts in the clean form: count, then colour, then position.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from backend.shapes.prompts import COLORS, SHAPES, Scene, Wanted
from backend.shapes.render import BACKGROUND, PALETTE, Placed, draw

MIN_AREA = 20
MIN_OVERLAP = 0.72
GRID = 16
DEAD_ZONE = 0.1
DIRECTION = 0.5

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Detection:
    """An object in a picture; shape is None when no template fits. Centre and size in pixels; overlap is the IoU."""

    shape: str | None
    color: str
    x: float
    y: float
    width: float
    height: float
    overlap: float


@dataclass(frozen=True)
class Verdict:
    """strict: every clause holds exactly and nothing else is in the picture. graded: 0..1, and 1 only when strict."""

    strict: bool
    graded: float


def blend(pictures: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Explain each pixel as ground + coverage * (colour - ground).

    pictures [N, H, W, 3] in 0..1 -> index of the best palette colour [N, H, W], its coverage 0..1 [N, H, W] and the
    distance [N, H, W] that the blend leaves unexplained.
    """
    ground = np.asarray(BACKGROUND, np.float32) / 255
    rays = np.stack([np.asarray(PALETTE[c], np.float32) / 255 - ground for c in COLORS])
    offset = pictures - ground
    coverage = np.clip(offset @ (rays / (rays**2).sum(1, keepdims=True)).T, 0, 1)
    square = (offset**2).sum(-1, keepdims=True)
    left = square - 2 * coverage * (offset @ rays.T) + coverage**2 * (rays**2).sum(1)
    best = left.argmin(-1)
    pick = best[..., None]
    distance = np.sqrt(np.maximum(np.take_along_axis(left, pick, -1)[..., 0], 0))
    return best, np.take_along_axis(coverage, pick, -1)[..., 0], distance


def _square_crop(mask: NDArray[np.bool_], rows: slice, columns: slice) -> NDArray[np.bool_]:
    """The box of an object, resampled on a GRID x GRID square around its centre."""
    height, width = rows.stop - rows.start, columns.stop - columns.start
    side = max(height, width)
    ticks = (np.arange(GRID) + 0.5) / GRID * side - side / 2
    y = np.floor(rows.start + height / 2 + ticks).astype(int)
    x = np.floor(columns.start + width / 2 + ticks).astype(int)
    inside = (((y >= rows.start) & (y < rows.stop))[:, None]) & ((x >= columns.start) & (x < columns.stop))
    return mask[np.clip(y, 0, mask.shape[0] - 1)[:, None], np.clip(x, 0, mask.shape[1] - 1)] & inside


@functools.cache
def _templates() -> tuple[NDArray[np.intp], Array]:
    """Masks of true shapes at several sizes and sub-pixel positions: shape index [V], flat masks [V, GRID * GRID]."""
    shapes, crops = [], []
    for shape, radius, shift in itertools.product(SHAPES, np.linspace(7, 11.5, 10), (0.0, 0.35, 0.7)):
        _, coverage, _ = blend(
            (draw([Placed(shape, "white", 32 + shift, 32 - shift, radius)])[None] / 255).astype(np.float32)
        )
        mask = coverage[0] > 0.5
        rows, columns = ndimage.find_objects(mask.astype(int))[0]
        shapes.append(SHAPES.index(shape))
        crops.append(_square_crop(mask, rows, columns).ravel())
    return np.array(shapes), np.stack(crops).astype(np.float32)


def detect(pictures: Array) -> list[list[Detection]]:
    """Objects in each of the pictures [N, H, W, 3] in 0..1."""
    best, coverage, _ = blend(pictures)
    layers = (best[:, None] == np.arange(len(COLORS))[:, None, None]) & (coverage > 0.5)[:, None]
    within = np.zeros((3, 3, 3, 3), int)
    within[1, 1] = 1
    labels, _ = ndimage.label(layers, structure=within)
    areas = np.bincount(labels.ravel())
    found: list[tuple[int, int, slice, slice]] = []
    crops = []
    for number, box in enumerate(ndimage.find_objects(labels), start=1):
        if areas[number] < MIN_AREA:
            continue
        picture, color, rows, columns = box[0].start, box[1].start, box[2], box[3]
        found.append((picture, color, rows, columns))
        crops.append(_square_crop(labels[picture, color] == number, rows, columns).ravel())
    detections: list[list[Detection]] = [[] for _ in pictures]
    if not found:
        return detections
    masks = np.stack(crops).astype(np.float32)
    shapes, templates = _templates()
    shared = masks @ templates.T
    overlaps = shared / (masks.sum(1, keepdims=True) + templates.sum(1) - shared)
    for (picture, color, rows, columns), overlap in zip(found, overlaps, strict=True):
        nearest = int(overlap.argmax())
        name = SHAPES[shapes[nearest]] if overlap[nearest] >= MIN_OVERLAP else None
        height, width = rows.stop - rows.start, columns.stop - columns.start
        detections[picture].append(
            Detection(
                name,
                COLORS[color],
                columns.start + width / 2,
                rows.start + height / 2,
                float(width),
                float(height),
                float(overlap[nearest]),
            )
        )
    return detections


def stands(relation: str, a: Detection, b: Detection) -> bool:
    """GenEval's position rule: the offset of centres, shrunk by a dead zone, points in the relation's direction."""
    offset = np.array([a.x - b.x, a.y - b.y])
    size = np.array([a.width + b.width, a.height + b.height])
    shrunk = np.sign(offset) * np.maximum(np.abs(offset) - DEAD_ZONE * size, 0)
    length = float(np.hypot(*shrunk))
    if length < 1e-3:
        return False
    x, y = shrunk / length
    component = {"left of": -x, "right of": x, "above": -y, "below": y}[relation]
    return bool(component > DIRECTION)


def _clause_parts(item: Wanted, found: list[Detection]) -> tuple[list[float], bool]:
    """Scores of one clause (count; colour) and whether it holds."""
    gap = abs(item.count - len(found))
    count = max(0.0, 1 - gap / item.count)
    if item.color is None:
        return [count], gap == 0
    if gap:
        return [count, 0.0], False
    right = sum(one.color == item.color for one in found)
    return [count, right / item.count], right == item.count


def judge(scene: Scene, detections: Sequence[Detection]) -> Verdict:
    """Check one picture's objects against a scene."""
    parts: list[float] = []
    holds = True
    groups = [[one for one in detections if one.shape == item.shape] for item in scene.wanted]
    for item, group in zip(scene.wanted, groups, strict=True):
        scores, clause_holds = _clause_parts(item, group)
        parts += scores
        holds &= clause_holds
    if scene.relation is not None:
        in_place = holds and stands(scene.relation, groups[0][0], groups[1][0])
        parts.append(float(in_place))
        holds &= in_place
    shapes = {item.shape for item in scene.wanted}
    extras = sum(one.shape not in shapes for one in detections)
    parts.append(1 / (1 + extras))
    return Verdict(bool(holds and extras == 0), float(np.mean(parts)))


def verify(pictures: Array, scenes: Sequence[Scene]) -> list[Verdict]:
    """Verdicts of pictures [N, H, W, 3] in 0..1 against their N scenes."""
    return [judge(scene, found) for scene, found in zip(scenes, detect(pictures), strict=True)]


SOFT_EDGE_OF_TRUTH = 0.75
COLOR_TOLERANCE = 0.10


def quality(pictures: Array) -> Array:
    """How much pictures [N, H, W, 3] look like clean drawings, whatever they show: 0..1 each, about 1 for true ones.

    Product of colour purity, exp(-mean unexplained distance / tolerance), and edge sharpness: half-covered pixels per
    boundary pixel, against the share that anti-aliased true shapes have. 0 for an empty picture. Never trained on.
    """
    _, coverage, distance = blend(pictures)
    purity = np.exp(-distance.mean((1, 2)) / COLOR_TOLERANCE)
    solid = coverage > 0.5
    boundary = (solid[:, 1:] != solid[:, :-1]).sum((1, 2)) + (solid[:, :, 1:] != solid[:, :, :-1]).sum((1, 2))
    soft = ((coverage > 0.15) & (coverage < 0.85)).sum((1, 2))
    sharpness = np.minimum(1, SOFT_EDGE_OF_TRUTH * boundary / np.maximum(soft, 1))
    return (purity * sharpness * (boundary > 0)).astype(np.float32)
