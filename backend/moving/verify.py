"""An exact verifier for videos of the moving-shapes world: objects are detected in every frame, then followed.

Rules: every frame shows the objects that were asked for and nothing else (identity); each goes its way, far enough and
not aside (direction); none stands still between two frames or turns back (motion); all steps are alike (smoothness).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from backend.moving.prompts import DIRECTIONS, Mover, MovingScene
from backend.shapes import verify as pictures
from backend.shapes.verify import Array, Detection

FAR_ENOUGH = 16.0  # pixels from the first frame to the last
ASIDE = 0.25  # most of the way, across it
LEAST_STEP = 0.25  # of the mean step; less is standing still
UNEVEN = 0.35  # most that steps differ from their mean (root of the mean square), in mean steps

Track = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """Each 0..1, and 1 when the rule holds without fault."""

    identity: float
    direction: float
    motion: float
    smoothness: float


@dataclass(frozen=True)
class Verdict:
    """strict: every rule holds. graded: the mean of the parts, where what is not there has moved nowhere."""

    strict: bool
    parts: Parts

    @property
    def graded(self) -> float:
        return float(np.mean(astuple(self.parts)))


def detect(videos: Array) -> list[list[list[Detection]]]:
    """Objects in each frame of the videos [N, F, H, W, 3] in 0..1."""
    found = pictures.detect(videos.reshape(-1, *videos.shape[2:]))
    num_frames = videos.shape[1]
    return [found[first : first + num_frames] for first in range(0, len(found), num_frames)]


def _ours(mover: Mover, frame: Sequence[Detection]) -> Detection | None:
    """The one object of the frame that can be the mover."""
    fitting = [one for one in frame if one.shape == mover.shape and mover.color in (None, one.color)]
    return fitting[0] if len(fitting) == 1 else None


def _follow(mover: Mover, frames: Sequence[Sequence[Detection]]) -> tuple[list[int], Track]:
    """Frames in which the mover is seen, with one colour throughout, and its centres [n, 2] there."""
    seen = {number: one for number, frame in enumerate(frames) if (one := _ours(mover, frame)) is not None}
    colors = [one.color for one in seen.values()]
    usual = max(colors, key=colors.count, default=None)
    kept = [number for number, one in seen.items() if one.color == usual]
    return kept, np.array([(seen[number].x, seen[number].y) for number in kept]).reshape(-1, 2)


def _movement(direction: str, kept: list[int], track: Track) -> tuple[float, float, float]:
    """direction, motion and smoothness of centres [n, 2] in the frames `kept`, of at least three."""
    way = np.array(DIRECTIONS[direction], float)
    offset = track - track[0]
    total, aside = float(offset[-1] @ way), float(np.abs(offset @ way[::-1]).max())
    if total <= 0:
        return 0.0, 0.0, 0.0
    steps = np.diff(track, axis=0) / np.diff(kept)[:, None]
    mean = total / (kept[-1] - kept[0])
    straight = min(1.0, ASIDE * total / max(aside, 1e-9))
    moved = float(np.mean(steps @ way >= LEAST_STEP * mean))
    uneven = float(np.sqrt(((steps - mean * way) ** 2).sum(1).mean())) / mean
    return min(1.0, total / FAR_ENOUGH) * straight, moved, min(1.0, UNEVEN / max(uneven, 1e-9))


def judge(scene: MovingScene, frames: Sequence[Sequence[Detection]]) -> Verdict:
    """Check one video's objects, frame by frame, against a scene."""
    num_frames = len(frames)
    followed = [_follow(mover, frames) for mover in scene.movers]
    whole = set(range(num_frames)).intersection(*(kept for kept, _ in followed))
    alone = [number for number in whole if len(frames[number]) == len(scene.movers)]
    identity = len(alone) / num_frames
    moved = []
    for mover, (kept, track) in zip(scene.movers, followed, strict=True):
        share = len(kept) / num_frames
        moved.append([share * part for part in _movement(mover.direction, kept, track)] if len(kept) > 2 else [0.0] * 3)
    direction, motion, smoothness = (float(value) for value in np.mean(moved, axis=0))
    parts = Parts(identity, direction, motion, smoothness)
    return Verdict(all(value >= 1 - 1e-9 for value in astuple(parts)), parts)


def verify(videos: Array, scenes: Sequence[MovingScene]) -> list[Verdict]:
    """Verdicts of videos [N, F, H, W, 3] in 0..1 against their N scenes.

    Raises ValueError for fewer than three frames, which show no even movement.
    """
    if videos.shape[1] < 3:
        raise ValueError(f"frames: {videos.shape[1]} of a sample show no movement; judge videos of 3 frames or more")
    return [judge(scene, frames) for scene, frames in zip(scenes, detect(videos), strict=True)]


def quality(videos: Array) -> Array:
    """How much the frames of videos [N, F, H, W, 3] look like clean drawings, as for pictures: their mean, [N]."""
    flat = pictures.quality(videos.reshape(-1, *videos.shape[2:]))
    return flat.reshape(videos.shape[:2]).mean(1)
