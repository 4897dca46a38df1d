"""A small network that names the coloured shapes of a picture; its last hidden layer is the feature space of KID."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from backend.shapes import prompts, render

OBJECTS = tuple(product(prompts.SHAPES, prompts.COLORS))
WIDTH = 64
BATCH = 64


def truths(number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures [N, 3, 64, 64] in 0..1 of random training prompts, and which of `OBJECTS` each shows, 0 or 1 [N, 36]."""
    rng = np.random.default_rng(seed)
    pictures, labels = [], torch.zeros(number, len(OBJECTS))
    for row in range(number):
        placed = render.place(prompts.LISTS.training(rng).scene, rng)
        pictures.append(render.draw(placed))
        for item in placed:
            labels[row, OBJECTS.index((item.shape, item.color))] = 1
    stack = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255
    return stack, labels


class Extractor(nn.Module):
    """Pictures [N, 3, 64, 64] -> logits [N, 36] of the objects they show."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((3, 16), (16, 32), (32, 64), (64, WIDTH)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(8, after), nn.SiLU()]
        self.body = nn.Sequential(
            *layers, nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(4 * WIDTH, WIDTH), nn.SiLU()
        )
        self.head = nn.Linear(WIDTH, len(OBJECTS))

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(pictures - 0.5))
        return logits

    @torch.no_grad()
    def features(self, pictures: Tensor) -> NDArray[np.float64]:
        """[N, 64] float64."""
        return torch.cat([self.body(part - 0.5) for part in pictures.split(256)]).double().numpy()


def trained(number: int, epochs: int, seed: int) -> Extractor:
    """An extractor that learnt from `number` true pictures; the same numbers for the same arguments on one machine."""
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    extractor: Any = Extractor()
    torch.set_rng_state(state)
    pictures, labels = truths(number, seed)
    order = torch.Generator().manual_seed(seed)
    steps = epochs * -(-number // BATCH)
    optimizer = torch.optim.AdamW(extractor.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(number, generator=order).split(BATCH):
            loss = nn.functional.binary_cross_entropy_with_logits(extractor(pictures[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return extractor.eval()


@torch.no_grad()
def accuracy(extractor: Extractor, number: int, seed: int) -> float:
    """Share of unseen pictures of which every object is named and none besides."""
    pictures, labels = truths(number, seed)
    named = torch.cat([extractor(part) for part in pictures.split(256)]) > 0
    return float((named == labels.bool()).all(1).float().mean())
