"""Ground truth of the Shapes world: flat shapes on a dark ground, drawn for a scene."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from backend.shapes.prompts import COLORS, SHAPES, Scene, Wanted

SIZE = 64
SUPERSAMPLING = 4
GAP = 5.0
GRID = (12.0, 32.0, 52.0)
JITTER = 1.5
RADII = (8.0, 10.0)
FREE_MARGIN = 2.0
FREE_RADII = {1: (8.5, 11.5), 2: (8.5, 11.0), 3: (8.0, 9.5), 4: (8.0, 9.0)}
BACKGROUND = (24, 26, 32)
PALETTE = {
    "red": (230, 60, 60),
    "green": (60, 200, 90),
    "blue": (70, 120, 250),
    "yellow": (250, 215, 70),
    "purple": (180, 80, 220),
    "white": (240, 240, 240),
}


@dataclass(frozen=True)
class Placed:
    """One object: centre (x, y) and radius in pixels."""

    shape: str
    color: str
    x: float
    y: float
    radius: float


def outline(shape: str) -> NDArray[np.float64]:
    """Corners [n, 2] of a shape of radius 1 around the origin, y downwards; a ring is its outer circle."""
    match shape:
        case "square":
            return 0.85 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)
        case "triangle":
            return np.array([[0, -0.95], [1, 0.8], [-1, 0.8]])
        case "cross":
            a = 0.32
            quarter = np.array([[a, -1], [a, -a], [1, -a], [1, a]])
            turn = np.array([[0, 1], [-1, 0]])
            corners = [quarter @ np.linalg.matrix_power(turn, k) for k in range(4)]
            return np.concatenate(corners)
        case "star":
            angles = np.arange(10) * np.pi / 5 - np.pi / 2
            radii = np.where(np.arange(10) % 2 == 0, 1.05, 0.45)
            return np.stack([radii * np.cos(angles), radii * np.sin(angles)], 1)
        case "circle" | "ring":
            angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
            return np.stack([np.cos(angles), np.sin(angles)], 1)
    raise ValueError(f"shape: {shape!r} is not one of {', '.join(SHAPES)}")


RING_HOLE = 0.5


def draw(objects: list[Placed], size: int = SIZE) -> NDArray[np.uint8]:
    """The picture [size, size, 3] of objects, anti-aliased by supersampling."""
    scale = SUPERSAMPLING * size / SIZE
    canvas = Image.new("RGB", (size * SUPERSAMPLING,) * 2, BACKGROUND)
    pen = ImageDraw.Draw(canvas)
    for item in objects:
        centre = np.array([item.x, item.y])
        corners = (centre + item.radius * outline(item.shape)) * scale
        pen.polygon([(float(x), float(y)) for x, y in corners], fill=PALETTE[item.color])
        if item.shape == "ring":
            hole = (centre + RING_HOLE * item.radius * outline("circle")) * scale
            pen.polygon([(float(x), float(y)) for x, y in hole], fill=BACKGROUND)
    return np.asarray(canvas.resize((size, size), Image.Resampling.BOX))


def _holds(relation: str, a: Placed, b: Placed) -> bool:
    """Whether a stands in the relation to b without doubt: within 30 degrees of the axis, centres 1.5 radii apart."""
    dx, dy = b.x - a.x, b.y - a.y
    along, across = {"left of": (dx, dy), "right of": (-dx, dy), "above": (dy, dx), "below": (-dy, dx)}[relation]
    return along > 1.5 * (a.radius + b.radius) / 2 and abs(across) < 0.58 * along


def _spot(number: int, anywhere: bool, rng: np.random.Generator) -> tuple[float, NDArray[np.float64]]:
    """Radius and centre of one of `number` objects."""
    if anywhere:
        radius = rng.uniform(*FREE_RADII[number])
        return radius, rng.uniform(radius + FREE_MARGIN, SIZE - radius - FREE_MARGIN, 2)
    return rng.uniform(*RADII), rng.choice(GRID, 2) + rng.uniform(-JITTER, JITTER, 2)


def place(scene: Scene, rng: np.random.Generator, anywhere: bool = False) -> list[Placed]:
    """Random objects that make a scene true and stand apart, near the points of a 3 x 3 grid or anywhere.

    Sizes, positions and the colours that the scene leaves open are drawn.
    """
    clauses: list[Wanted] = [item for item in scene.wanted for _ in range(item.count)]
    while True:
        placed: list[Placed] = []
        for item in clauses:
            radius, (x, y) = _spot(len(clauses), anywhere, rng)
            color = item.color or COLORS[rng.integers(len(COLORS))]
            apart = all(np.hypot(x - o.x, y - o.y) > radius + o.radius + GAP for o in placed)
            if not apart:
                break
            placed.append(Placed(item.shape, color, float(x), float(y), float(radius)))
        else:
            if scene.relation is None or _holds(scene.relation, placed[0], placed[1]):
                return placed


def render(scene: Scene, rng: np.random.Generator, anywhere: bool = False) -> NDArray[np.uint8]:
    """One ground-truth picture [64, 64, 3] of a scene."""
    return draw(place(scene, rng, anywhere))
