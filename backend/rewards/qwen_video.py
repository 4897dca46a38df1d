"""Videos as Qwen2-VL sees them: some of the frames, their size, and patches of two frames each.

Source: the rules of VideoAlign's vision_process.py (qwen_vl_utils) and of transformers' Qwen2-VL processors.

Shape legend
    N videos of F frames, K of them seen, H x W pixels in 0..1, h x w after resizing.
    c spatial and t temporal sides of a patch, m x m patches that become one embedding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from backend.media import quantise

FACTOR = 28  # pixels of an embedding's side: patches of 14, merged 2 x 2
MIN_PIXELS = 128 * FACTOR**2
MIN_FRAMES, MAX_FRAMES = 4, 768


def sampled(frames: Tensor, played: float, seen: float) -> Tensor:
    """[N, F, ...] played at one rate -> [N, K, ...] at the other, both in frames a second.

    K is even, 4 or more where there are as many; the first and the last frame are among them. F is 2 or more.
    """
    num_frames = frames.shape[1]
    most = min(MAX_FRAMES, num_frames) // 2 * 2
    count = 2 * round(min(max(num_frames / played * seen, MIN_FRAMES), most) / 2)
    places = torch.linspace(0, num_frames - 1, count).round().long()
    return frames[:, places.to(frames.device)]


def size(height: int, width: int, max_pixels: int) -> tuple[int, int]:
    """The nearest multiples of 28 with 128 x 28 x 28 to max_pixels pixels, of about the same aspect ratio."""
    high, wide = (max(FACTOR, round(side / FACTOR) * FACTOR) for side in (height, width))
    if high * wide > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        high, wide = (max(FACTOR, math.floor(side / shrink / FACTOR) * FACTOR) for side in (height, width))
    elif high * wide < MIN_PIXELS:
        grow = math.sqrt(MIN_PIXELS / (height * width))
        high, wide = (math.ceil(side * grow / FACTOR) * FACTOR for side in (height, width))
    return high, wide


def resized(frames: Tensor, max_pixels: int) -> Tensor:
    """[N, K, 3, H, W] -> [N, K, 3, h, w] by torchvision's bicubic of 8-bit frames: antialiased, rounded once."""
    height, width = frames.shape[-2:]
    target = size(height, width, max_pixels)
    if (height, width) == target:
        return frames
    flat = torch.nn.functional.interpolate(
        frames.flatten(0, 1).float(), target, mode="bicubic", antialias=True, align_corners=False
    )
    return quantise(flat).unflatten(0, frames.shape[:2])


def patches(frames: Tensor, side: int, depth: int, merge: int) -> tuple[Tensor, Tensor]:
    """Normalised [N, K, 3, h, w] -> patches [N (K/t) (h/c) (w/c), 3 t c c] and the grids, Long[N, 3] of K/t, h/c, w/c.

    The m x m patches of one embedding follow each other. side: c; depth: t; merge: m. K is a multiple of t.
    """
    num_videos, num_frames, colours, height, width = frames.shape
    grid = num_frames // depth, height // side, width // side
    split = frames.reshape(
        num_videos, grid[0], depth, colours, grid[1] // merge, merge, side, grid[2] // merge, merge, side
    )
    rows = split.permute(0, 1, 4, 7, 5, 8, 3, 2, 6, 9)  # N, K/t, h/cm, w/cm, m, m, 3, t, c, c
    flat = rows.reshape(-1, colours * depth * side * side)
    return flat, torch.tensor(grid, device=frames.device).expand(num_videos, 3)
