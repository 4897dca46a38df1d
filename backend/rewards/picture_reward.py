"""What the rewards of single pictures share; a video is the mean of some of its frames.

Shape legend
    N samples, F frames of each, K of them judged, H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from backend.methods.settings import Settings


def evenly(frames: Tensor, count: int) -> Tensor:
    """[N, F, ...] -> [N, K, ...]: the first frame, the last, and evenly spaced ones between; the middle one alone."""
    num_frames = frames.shape[1]
    if count == 1:
        return frames[:, num_frames // 2 : num_frames // 2 + 1]
    places = torch.linspace(0, num_frames - 1, min(count, num_frames), dtype=torch.float64).round().long()
    return frames[:, places.to(frames.device)]


class PictureReward(Settings):
    """A reward of one picture and its prompt. It says nothing of motion."""

    differentiable: ClassVar[bool] = False
    frames: int = Field(
        4, ge=1, le=256, description="Evenly spaced frames of a video whose mean counts; an image has one (ours)"
    )

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, F, 3, H, W] in 0..1 -> float64 [N] on the CPU."""
        chosen = evenly(frames, self.frames)
        repeated = [prompt for prompt in prompts for _ in range(chosen.shape[1])]
        return self._judge(chosen.flatten(0, 1), repeated).double().cpu().view(chosen.shape[:2]).mean(1)

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        """pictures [N K, 3, H, W] and a prompt for each -> [N K]; NaN where it cannot judge."""
        raise NotImplementedError
