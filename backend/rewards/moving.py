"""The exact reward of the moving-shapes world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.methods.settings import Settings
from backend.rewards.shapes import STRICT_SHARE, mixed
from backend.worlds import MOVING


class MovingReward(Settings):
    """Does the video show what the prompt asks for, and move as it says? 1 only when every rule holds."""

    differentiable: ClassVar[bool] = False
    name: Literal["moving"] = "moving"
    weight: float = Field(1.0, description="Factor in the sum of rewards")
    measure: Literal["all", "identity", "direction", "motion", "smoothness"] = Field(
        "all",
        description="One rule alone, graded: identity is that each frame shows what was asked for and nothing else, "
        "motion that nothing stands still; all: their mean, mixed with strict correctness",
    )
    strict_share: float = STRICT_SHARE

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, F, 3, H, W] -> float64 [N].

        Raises ValueError for a prompt outside the world, and for videos of fewer than three frames.
        """
        verdicts = MOVING.judge(frames, prompts)
        if self.measure == "all":
            return mixed(verdicts, self.strict_share)
        return torch.tensor([getattr(one.parts, self.measure) for one in verdicts], dtype=torch.float64)
