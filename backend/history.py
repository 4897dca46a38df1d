"""Recent rewards of each prompt, kept across training steps: the statistics that DDPO compares a sample with."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

MOST_PROMPTS = 10_000
EPS = 1e-6


class PromptHistory:
    """At most `size` rewards a prompt, the latest; at most 10,000 prompts, those seen last. It is a `Memory`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rewards: OrderedDict[str, deque[float]] = OrderedDict()

    def extend(self, prompt: str, rewards: Sequence[float]) -> None:
        """Remember the rewards of new samples of a prompt."""
        self.rewards.setdefault(prompt, deque(maxlen=self.size)).extend(rewards)
        self.rewards.move_to_end(prompt)
        while len(self.rewards) > MOST_PROMPTS:
            self.rewards.popitem(last=False)

    def advantages(self, prompts: Sequence[str], rewards: Tensor, min_count: int) -> Tensor:
        """Remember rewards [P, G], and standardise each by what its prompt has seen, these included: float64 [P, G].

        A prompt with fewer than min_count rewards is compared with all of this step instead. Stds are biased, plus
        1e-6 (released DDPO). A prompt that stands in the list twice is one prompt. Rewards of NaN, of samples that
        could not be judged, are not remembered and become 0.
        """
        rewards = rewards.double()
        for prompt, row in zip(prompts, rewards, strict=True):
            self.extend(prompt, row[~row.isnan()].tolist())
        rows = []
        for prompt, row in zip(prompts, rewards, strict=True):
            seen = torch.tensor(list(self.rewards[prompt]), dtype=torch.float64)
            known = seen if len(seen) >= min_count else rewards[~rewards.isnan()]
            if not len(known):
                known = torch.zeros(1, dtype=torch.float64)
            rows.append((row - known.mean().to(row)) / (known.std(correction=0).to(row) + EPS))
        return torch.stack(rows).masked_fill(rewards.isnan(), 0.0)

    def state_dict(self) -> dict[str, Any]:
        return {"rewards": [(prompt, list(rewards)) for prompt, rewards in self.rewards.items()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rewards = OrderedDict((prompt, deque(rewards, maxlen=self.size)) for prompt, rewards in state["rewards"])
