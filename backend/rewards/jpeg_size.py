"""The size of a picture as JPEG (DDPO, arXiv 2305.13301): a reward without a model, for tests of the whole chain."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field
from torch import Tensor

from backend.media import quantise
from backend.rewards import scaling
from backend.rewards.picture_reward import PictureReward

BYTES_PER_KB = 1000


def kilobytes(levels: NDArray[np.uint8], quality: int) -> float:
    """Of a picture [H, W, 3] as baseline JPEG, in units of 1000 bytes."""
    buffer = io.BytesIO()
    Image.fromarray(levels).save(buffer, "JPEG", quality=quality)
    return len(buffer.getvalue()) / BYTES_PER_KB


class JPEGSize(PictureReward):
    """+kB or -kB of the picture as JPEG, whatever the prompt. Pictures of several sizes are not comparable."""

    name: Literal["jpeg_size"] = "jpeg_size"
    weight: float = scaling.weight("jpeg_size")
    prefer: Literal["small", "large"] = Field(
        "small", description="small = compressible pictures score more (-kB), large = incompressible ones (+kB)"
    )
    quality: int = Field(95, ge=1, le=100, description="JPEG quality (DDPO 95)")

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        levels = (quantise(pictures) * 255).to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        sizes = torch.tensor([kilobytes(one, self.quality) for one in levels], dtype=torch.float64)
        return -sizes if self.prefer == "small" else sizes
