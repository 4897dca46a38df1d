"""Plain numbers of a picture, as alarms: a model that games its reward often drifts in one of them.

Shape legend
    N pictures of H x W pixels in 0..1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.rewards import scaling
from backend.rewards.picture_reward import PictureReward

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601
SOBEL = ((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0))


def luma(pictures: Tensor) -> Tensor:
    """[N, 3, H, W] -> [N, H, W] in 0..1."""
    return torch.einsum("nchw,c->nhw", pictures, torch.tensor(LUMA).to(pictures))


def slopes(grey: Tensor) -> Tensor:
    """[N, H, W] -> [N, H, W]: length of Sobel's gradient, where 1 is a step of the whole range; edges are repeated."""
    across = torch.tensor(SOBEL).to(grey) / 4
    kernels = torch.stack([across, across.T])[:, None]
    padded = torch.nn.functional.pad(grey[:, None], (1, 1, 1, 1), mode="replicate")
    return torch.nn.functional.conv2d(padded, kernels).square().sum(1).sqrt()


class Brightness(PictureReward):
    """Mean luma, 0 black to 1 white."""

    differentiable: ClassVar[bool] = True
    name: Literal["brightness"] = "brightness"
    weight: float = scaling.weight("brightness")

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        return luma(pictures).mean((1, 2))


class Saturation(PictureReward):
    """Mean saturation of HSV, (max - min) / max of the colours of a pixel: 0 grey to 1 pure; black is 0."""

    differentiable: ClassVar[bool] = True
    name: Literal["saturation"] = "saturation"
    weight: float = scaling.weight("saturation")

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        high, low = pictures.amax(1), pictures.amin(1)
        return ((high - low) / high.clamp(min=1e-6)).mean((1, 2))


class EdgeDensity(PictureReward):
    """Share of pixels on an edge: it falls when pictures blur and rises when they fill with texture."""

    name: Literal["edge_density"] = "edge_density"
    weight: float = scaling.weight("edge_density")
    threshold: float = Field(
        0.1, gt=0, lt=1, description="Least slope of an edge, as a share of the step from black to white (ours)"
    )

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        return (slopes(luma(pictures)) > self.threshold).double().mean((1, 2))
