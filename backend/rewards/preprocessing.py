"""Pictures as CLIP and BLIP were trained to see them. Every step has a gradient.

Shape legend
    N pictures of H x W pixels in 0..1, S the side that the model sees.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.media import quantise

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


def resize(pictures: Tensor, height: int, width: int) -> Tensor:
    """Pillow's bicubic with antialiasing: the rows, then the columns, each rounded to 8-bit levels.

    The rounding passes gradients as if it were not there.
    """
    for size in ((pictures.shape[-2], width), (height, width)):
        if pictures.shape[-2:] != size:
            sized = torch.nn.functional.interpolate(
                pictures.float(), size, mode="bicubic", antialias=True, align_corners=False
            ).clamp(0, 1)
            pictures = sized + (quantise(sized) - sized).detach()
    return pictures


def crop(pictures: Tensor, size: int) -> Tensor:
    """[N, 3, H, W] -> [N, 3, S, S]: the shorter side to S, then the centre (OpenAI CLIP, transformers)."""
    height, width = pictures.shape[-2:]
    short = min(height, width)
    pictures = resize(pictures, int(size * height / short), int(size * width / short))
    top, left = (pictures.shape[-2] - size) // 2, (pictures.shape[-1] - size) // 2
    return pictures[..., top : top + size, left : left + size]


def pad(pictures: Tensor, size: int) -> Tensor:
    """[N, 3, H, W] -> [N, 3, S, S]: the longer side to S, then black around it (HPSv2's OpenCLIP transform)."""
    height, width = pictures.shape[-2:]
    long = max(height, width)
    pictures = resize(pictures, round(size * height / long), round(size * width / long))
    below, beside = size - pictures.shape[-2], size - pictures.shape[-1]
    return torch.nn.functional.pad(
        pictures, (beside // 2, beside - beside // 2, below // 2, below - below // 2), value=0.0
    )


def normalise(pictures: Tensor) -> Tensor:
    """Less CLIP's mean and over its std of each colour."""
    mean, std = (torch.tensor(values).to(pictures).view(3, 1, 1) for values in (MEAN, STD))
    return (pictures - mean) / std
