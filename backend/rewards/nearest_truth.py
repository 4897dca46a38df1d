"""A reward of the Shapes world with gradients: the distance of a picture to the nearest true picture of its prompt.

Shape legend
    N pictures, K true pictures of a prompt, H = W = 64 pixels, h = w = 32 after pooling.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from backend.methods.settings import Settings
from backend.shapes import render
from backend.shapes.prompts import Scene, content_text, parse

POOL = 2
CACHED_SCENES = 256  # 128 truths of a scene are 0.4 MB


@functools.lru_cache(maxsize=CACHED_SCENES)
def truths(scene: Scene, count: int) -> Tensor:
    """uint8 [K, 3, h, w]: true pictures of a scene. A larger count begins with the pictures of a smaller one."""
    rng = np.random.default_rng(list(content_text(scene).encode()))
    drawn = [render.draw(render.place(scene, rng), render.SIZE // POOL) for _ in range(count)]
    return torch.from_numpy(np.stack(drawn)).permute(0, 3, 1, 2).contiguous()


def background(like: Tensor) -> Tensor:
    """[3, 1, 1] in 0..1."""
    return torch.tensor(render.BACKGROUND, dtype=like.dtype, device=like.device).view(3, 1, 1) / 255


class NearestTruth(Settings):
    """max_k 1 - |x - y_k|^2 / |y_k - ground|^2 over true pictures y_k of the prompt, 2 x 2 pixels averaged.

    A true picture among them scores 1, an empty ground 0, and a picture that is farther from all truths than an empty
    one below 0. Squared distances have a gradient everywhere, at distance 0 too. It is a coarse reward, because K
    pictures are few among the places that a shape may have: on samples of the bundled base it ranks a correct picture
    above a wrong one in about 87 % of pairs with 128 truths (80 % with 32, 91 % with 256).
    """

    differentiable: ClassVar[bool] = True
    name: Literal["nearest_truth"] = "nearest_truth"
    weight: float = Field(1.0, description="Factor in the sum of rewards")
    truths: int = Field(128, ge=1, le=1024, description="True pictures K that are drawn of each prompt (ours)")

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, 1, 3, 64, 64] -> float64 [N] on the CPU, with gradients.

        Raises ValueError for a prompt outside the world, and for pictures of another size.
        """
        if frames.shape[1:] != (1, 3, render.SIZE, render.SIZE):
            raise ValueError(
                f"rewards.nearest_truth: needs one picture of 3 x {render.SIZE} x {render.SIZE} a prompt, got "
                f"{tuple(frames.shape[1:])}; use a reward that fits this model"
            )
        pooled = torch.nn.functional.avg_pool2d(frames[:, 0], POOL)
        scenes = [parse(text) for text in prompts]
        rewards = torch.zeros(len(frames), dtype=torch.float64)
        for scene in dict.fromkeys(scenes):  # each has its own truths
            rows = torch.tensor([i for i, one in enumerate(scenes) if one == scene])
            found = self._nearness(pooled[rows.to(frames.device)], truths(scene, self.truths))
            rewards = rewards.index_put((rows,), found.double().cpu())
        return rewards

    def _nearness(self, pictures: Tensor, true: Tensor) -> Tensor:
        """pictures [n, 3, h, w] and truths [K, 3, h, w] of one prompt -> [n]."""
        true = true.to(pictures) / 255
        distances = (pictures[:, None] - true).square().flatten(2).mean(2)
        blank = (true - background(true)).square().flatten(1).mean(1)
        return (1 - distances / blank).amax(1)
