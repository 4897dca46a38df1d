"""Scaled latents to frames and back, through a pipeline's autoencoder. Differentiable.

Shape legend
    N media, F frames (f of them in the latent), c latent channels, h, w the latent's height and width.
    A scaled latent is what the transformer sees: (z - shift) * scale of pictures, (z - mean) / std a channel of videos.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

PIXELS = 64 * 64 * 64  # of the pictures, or frames of videos, that pass together
LATENT_PIXEL = 8  # side of a latent pixel in pixels
TEMPORAL = 4  # frames of a latent one


def decode_pictures(vae: Any, latents: Tensor) -> Tensor:
    """Scaled latents [N, c, h, w] -> frames [N, 1, 3, H, W] in 0..1, a few at a time."""
    latents = latents / vae.config.scaling_factor + vae.config.shift_factor
    together = _together(LATENT_PIXEL**2 * latents[0, 0].numel())
    images = torch.cat([vae.decode(part, return_dict=False)[0] for part in latents.split(together)])
    return (images / 2 + 0.5).clamp(0, 1)[:, None]


def encode_pictures(vae: Any, frames: Tensor) -> Tensor:
    """Frames [N, 1, 3, H, W] in 0..1 -> scaled latents [N, c, h, w], means of the posterior."""
    images = frames[:, 0] * 2 - 1
    parts = images.split(_together(frames[0, :, 0].numel()))
    means = torch.cat([vae.encode(part).latent_dist.mode() for part in parts])
    latents: Tensor = (means - vae.config.shift_factor) * vae.config.scaling_factor
    return latents


def check_pictures(frames: Tensor, side: int) -> None:
    """Raises ValueError unless frames are [N, 1, 3, side, side]."""
    if frames.shape[1:] != (1, 3, side, side):
        raise ValueError(
            f"frames: {list(frames.shape[1:])} are not one picture of 3 x {side} x {side}, which this model makes; "
            "set model.resolution to the pictures' size, or choose another base"
        )


def decode_videos(vae: Any, latents: Tensor) -> Tensor:
    """Scaled latents [N, c, f, h, w] -> frames [N, F, 3, H, W] in 0..1, a few small videos at a time, or one."""
    mean, std = _statistics(vae, latents)
    latents = latents * std + mean
    together = _together(TEMPORAL * LATENT_PIXEL**2 * latents[0, 0].numel())
    videos = torch.cat([vae.decode(part, return_dict=False)[0] for part in latents.split(together)])
    return (videos / 2 + 0.5).clamp(0, 1).transpose(1, 2)


def encode_videos(vae: Any, frames: Tensor) -> Tensor:
    """Frames [N, F, 3, H, W] in 0..1 -> scaled latents [N, c, f, h, w], means of the posterior."""
    videos = frames.transpose(1, 2) * 2 - 1
    parts = videos.split(_together(frames[0, :, 0].numel()))
    means = torch.cat([vae.encode(part).latent_dist.mode() for part in parts])
    mean, std = _statistics(vae, means)
    latents: Tensor = (means - mean) / std
    return latents


def _together(pixels: int) -> int:
    """Samples of so many pixels each that pass together."""
    return max(1, PIXELS // pixels)


def _statistics(vae: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std of each latent channel, [c, 1, 1, 1]."""
    mean, std = (torch.tensor(values).to(like) for values in (vae.config.latents_mean, vae.config.latents_std))
    return mean.view(-1, 1, 1, 1), std.view(-1, 1, 1, 1)
