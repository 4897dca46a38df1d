"""A value network over noisy latents: the reward that DPOK expects from a state, fitted beside the policy.

Shape legend
    N states, D... latent dimensions, d their number.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from backend.types import ALONE, Ranks

WORDS = 64
SCALARS = 3


class Critic:
    """V(x_t, prompt, t) with its optimizer. It is a `Memory`.

    A perceptron of two hidden layers on the flattened latent, the noise level, and the prompt. Conditioning is opaque
    to everything but its own policy, so the prompt is seen as signed hashed counts of its words (Weinberger et al.
    2009), which every policy has. The last layer starts at zero: before it is fitted, no state is expected to be
    better than another.
    """

    def __init__(
        self, latent_shape: Sequence[int], device: torch.device, hidden: int = 256, learning_rate: float = 1e-4
    ) -> None:
        self.device = device
        width = math.prod(latent_shape) + SCALARS + WORDS
        sizes = ((width, hidden), (hidden, hidden), (hidden, 1))
        layers: list[nn.Linear] = [nn.utils.skip_init(nn.Linear, *size) for size in sizes]
        generator = torch.Generator().manual_seed(0)
        for layer in layers:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(layers[-1].weight)
        self.network = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        self.network.to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=learning_rate)

    def __call__(self, x: Tensor, sigma: Tensor, words: Tensor) -> Tensor:
        """Latents [N, D...], noise levels [N] and hashed prompts [N, 64] -> expected rewards float32 [N]."""
        x, sigma = x.to(self.device, torch.float32), sigma.to(self.device, torch.float32)
        level = torch.stack([sigma, torch.cos(math.pi * sigma), torch.sin(math.pi * sigma)], dim=1)
        features = torch.cat([x.flatten(1), level, words.to(self.device)], dim=1)
        out: Tensor = self.network(features)[:, 0]
        return out

    def fit(
        self,
        x: Tensor,
        sigma: Tensor,
        words: Tensor,
        rewards: Tensor,
        total: int | None = None,
        ranks: Ranks = ALONE,
    ) -> float:
        """One optimizer step on the mean squared error to rewards [N]; returns the error before it.

        total  states of all processes that share this step, each of which calls with its own; None: N
        """
        squares = (self(x, sigma, words) - rewards.to(self.device, torch.float32)).square()
        error = squares.sum() / (len(x) if total is None else total)
        self.optimizer.zero_grad()
        torch.autograd.backward(error)
        found = error.detach()
        ranks.add([found, *(value.grad for value in self.network.parameters() if value.grad is not None)])
        self.optimizer.step()
        return float(found)

    def state_dict(self) -> dict[str, Any]:
        return {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])


def hashed_words(prompts: Sequence[str]) -> Tensor:
    """float32 [P, 64]: each word adds +-1 at a place that a checksum of it names; scaled to length 1."""
    counts = torch.zeros(len(prompts), WORDS)
    for row, prompt in enumerate(prompts):
        for word in prompt.lower().split():
            place, sign = divmod(zlib.crc32(word.encode()) % (2 * WORDS), 2)
            counts[row, place] += 2 * sign - 1
    return nn.functional.normalize(counts, dim=1)
