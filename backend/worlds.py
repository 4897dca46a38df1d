"""The built-in worlds: prompts with a held-out list, and an exact judgement of what a model makes of them.

Shape legend
    N samples of F frames [N, F, 3, H, W] in 0..1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from backend.moving import prompts as moving_prompts
from backend.moving import verify as videos
from backend.shapes import prompts as shapes_prompts
from backend.shapes import verify as pictures
from backend.shapes.prompt_lists import PromptLists


class Verdict(Protocol):
    """strict: every rule of the world holds. graded: how many do, 0..1."""

    @property
    def strict(self) -> bool: ...

    @property
    def graded(self) -> float: ...


V = TypeVar("V", bound=Verdict)


@dataclass(frozen=True)
class World(Generic[V]):
    """
    parse    the scene of a text; ValueError where it asks for nothing in this world
    shown    what of the frames is judged, as the verifier takes it
    verify   what is shown, and N scenes -> N verdicts
    quality  what is shown -> [N], 0..1: is it drawn cleanly?
    """

    lists: PromptLists[Any]
    parse: Callable[[str], Any]
    shown: Callable[[Tensor], NDArray[np.float32]]
    verify: Callable[[NDArray[np.float32], Sequence[Any]], Sequence[V]]
    quality: Callable[[NDArray[np.float32]], NDArray[Any]]

    def judge(self, frames: Tensor, texts: Sequence[str]) -> Sequence[V]:
        """frames [N, F, 3, H, W], N texts. Raises ValueError for a prompt outside the world."""
        return self.verify(self.shown(frames), [self.parse(text) for text in texts])


def _video(frames: Tensor) -> NDArray[np.float32]:
    """[N, F, 3, H, W] -> [N, F, H, W, 3]."""
    found: NDArray[np.float32] = frames.permute(0, 1, 3, 4, 2).float().cpu().numpy()
    return found


def _picture(frames: Tensor) -> NDArray[np.float32]:
    """[N, F, 3, H, W] -> [N, H, W, 3], the first frame."""
    return _video(frames[:, :1])[:, 0]


SHAPES = World(shapes_prompts.LISTS, shapes_prompts.parse, _picture, pictures.verify, pictures.quality)
MOVING = World(moving_prompts.LISTS, moving_prompts.parse, _video, videos.verify, videos.quality)
HELD_OUT: dict[str, World[Any]] = {"shapes-test": SHAPES, "moving-test": MOVING}
