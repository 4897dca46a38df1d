"""The exact reward of the Shapes world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.methods.settings import Settings
from backend.worlds import SHAPES, Verdict

STRICT_SHARE = Field(
    0.5, ge=0, le=1, description="Share of all-or-nothing correctness; the rest is the graded score (ours)"
)


class ShapesReward(Settings):
    """Does the picture show what the prompt asks for? 1 only when every clause holds and nothing else is there."""

    differentiable: ClassVar[bool] = False
    name: Literal["shapes"] = "shapes"
    weight: float = Field(1.0, description="Factor in the sum of rewards")
    strict_share: float = STRICT_SHARE

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, 1, 3, H, W] -> float64 [N]. Raises ValueError for a prompt outside the world."""
        verdicts = SHAPES.judge(frames, prompts)
        return mixed(verdicts, self.strict_share)


def mixed(verdicts: Sequence[Verdict], strict_share: float) -> Tensor:
    """Float64 [N] of N verdicts."""
    strict = torch.tensor([float(one.strict) for one in verdicts], dtype=torch.float64)
    graded = torch.tensor([one.graded for one in verdicts], dtype=torch.float64)
    return strict_share * strict + (1 - strict_share) * graded
