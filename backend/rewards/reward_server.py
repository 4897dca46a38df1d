"""A reward of the user's own behind HTTP; docs/rewards.md has the contract.

Shape legend
    N samples, K judged frames of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.rewards import judging, scaling
from backend.rewards.judging import RewardFailed
from backend.rewards.picture_reward import evenly
from backend.rewards.served import SHOWN, ServedReward, png


class RewardServer(ServedReward):
    """POST {"prompts", "images", "metadata"} -> {"scores": [number or null]}; null means not judged."""

    needs_metadata: ClassVar[Literal[True]] = True
    name: Literal["reward_server"] = "reward_server"
    weight: float = scaling.weight("reward_server")
    url: str = Field("http://127.0.0.1:8100/score", pattern=r"^https?://.+", description="Where samples are sent")
    batch: int = Field(16, ge=1, le=4096, description="Most samples in one request (ours)")
    at_once: int = Field(2, ge=1, le=64, description="Requests under way at the same time (ours)")

    def score(self, frames: Tensor, prompts: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> Tensor:
        """frames [N, F, 3, H, W] in 0..1 -> float64 [N]; NaN for null, and for all samples of a request that failed.

        Raises RewardFailed when no sample is judged.
        """
        chosen = evenly(frames, self.frames)
        parts = torch.arange(len(prompts)).split(self.batch)
        found = torch.full((len(prompts),), torch.nan, dtype=torch.float64)

        def one(number: int) -> float:
            rows = parts[number].tolist()
            images = [[png(picture) for picture in chosen[row]] for row in rows]
            sent = {"prompts": [prompts[row] for row in rows], "images": images}
            told = [dict(metadata[row]) for row in rows]
            found[parts[number]] = scores(self._ask(self.url, sent | {"metadata": told}), len(rows))
            return 0.0

        judging.each(self.name, one, len(parts), self.at_once)
        if found.isnan().all():
            raise RewardFailed(f"{self.url} judged none of {len(prompts)} samples")
        return found


def scores(answer: Any, count: int) -> Tensor:
    """float64 [count]. Raises RewardFailed unless the answer has so many finite numbers or nulls."""
    given = answer.get("scores") if isinstance(answer, dict) else None
    if not isinstance(given, list) or len(given) != count:
        raise RewardFailed(f'the answer needs "scores", a list of {count}: {str(answer)[:SHOWN]}')
    for one in given:
        if one is not None and (isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one)):
            raise RewardFailed(f"a score is {one!r}; give a finite number, or null where there is none")
    return torch.tensor([math.nan if one is None else float(one) for one in given], dtype=torch.float64)
