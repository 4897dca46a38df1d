"""Ground truth of the moving-shapes world: flat shapes that move evenly on a dark ground."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backend.moving.prompts import DIRECTIONS, Mover, MovingScene
from backend.shapes.prompts import COLORS
from backend.shapes.render import SIZE, Placed, draw

FRAMES = 9
RADII = (8.0, 10.0)
TRAVEL = (24.0, 32.0)  # pixels from the first frame to the last
EDGE = 12.0  # from the border to a centre
LANES = (17.0, 47.0)  # across the way, of two objects
JITTER = 2.0

Path = list[Placed]


def _path(mover: Mover, across: float, rng: np.random.Generator) -> Path:
    """One object in each frame."""
    radius, travel = rng.uniform(*RADII), rng.uniform(*TRAVEL)
    start = rng.uniform(EDGE, SIZE - EDGE - travel)
    color = mover.color or COLORS[rng.integers(len(COLORS))]
    right, down = DIRECTIONS[mover.direction]
    forwards = right + down > 0
    along = start + travel * np.linspace(0, 1, FRAMES)
    if not forwards:
        along = along[::-1]
    places = [(at, across) if right else (across, at) for at in along]
    return [Placed(mover.shape, color, float(x), float(y), radius) for x, y in places]


def place(scene: MovingScene, rng: np.random.Generator) -> list[Path]:
    """Random paths that make a scene true; sizes, speeds, places and the colours that it leaves open are drawn."""
    if len(scene.movers) == 1:
        return [_path(scene.movers[0], rng.uniform(EDGE, SIZE - EDGE), rng)]
    lanes = rng.permutation(LANES) + rng.uniform(-JITTER, JITTER, 2)
    return [_path(mover, float(lane), rng) for mover, lane in zip(scene.movers, lanes, strict=True)]


def draw_frames(paths: list[Path]) -> NDArray[np.uint8]:
    """The video [F, 64, 64, 3] of objects that each have a place in every frame."""
    return np.stack([draw(list(frame)) for frame in zip(*paths, strict=True)])


def render(scene: MovingScene, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One ground-truth video [F, 64, 64, 3] of a scene."""
    return draw_frames(place(scene, rng))
