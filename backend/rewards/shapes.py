"""The exact reward of the Shapes world, and the quality score that is held out from training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from backend.methods.settings import Settings
from backend.shapes import prompts as shapes_prompts
from backend.shapes import verify


def pictures(frames: Tensor) -> NDArray[np.float32]:
    """Frames [N, 1, 3, H, W] in 0..1 -> [N, H, W, 3]."""
    return frames[:, 0].permute(0, 2, 3, 1).float().cpu().numpy()


class ShapesReward(Settings):
    """Does the picture show what the prompt asks for? 1 only when every clause holds and nothing else is there."""

    differentiable: ClassVar[bool] = False
    name: Literal["shapes"] = "shapes"
    weight: float = Field(1.0, description="Factor in the sum of rewards")
    strict_share: float = Field(
        0.5, ge=0, le=1, description="Share of all-or-nothing correctness; the rest is the graded score (ours)"
    )

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, 1, 3, H, W] -> float64 [N]. Raises ValueError for a prompt outside the world."""
        verdicts = verify.verify(pictures(frames), [shapes_prompts.parse(text) for text in prompts])
        strict = torch.tensor([float(verdict.strict) for verdict in verdicts], dtype=torch.float64)
        graded = torch.tensor([verdict.graded for verdict in verdicts], dtype=torch.float64)
        return self.strict_share * strict + (1 - self.strict_share) * graded
