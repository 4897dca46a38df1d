"""The contract with a user's server."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from backend.rewards.judging import RewardFailed
from backend.rewards.reward_server import RewardServer
from tests.backend.rewards.http_server import Answer, serving

WRONG: list[Any] = [
    {}, [1.0, 2.0], {"scores": [1.0]}, {"scores": "1 2"}, {"scores": [1.0, "2"]}, {"scores": [1.0, True]},
    '{"scores": [1.0, NaN]}', '{"scores": [1.0, 1e999]}',
]  # fmt: skip


def plain(*levels: float) -> Tensor:
    return torch.stack([torch.full((1, 3, 4, 4), level) for level in levels])


def brightness(path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
    """The mean level of each sample's pictures, plus metadata `bonus`; null for the prompt `pass`, 500 for `crash`."""
    if "crash" in body["prompts"]:
        return 500, "crashed"
    found = []
    for prompt, images, told in zip(body["prompts"], body["images"], body["metadata"], strict=True):
        levels = [np.array(Image.open(io.BytesIO(base64.b64decode(one)))).mean() / 255 for one in images]
        found.append(None if prompt == "pass" else float(np.mean(levels)) + told.get("bonus", 0))
    return 200, {"scores": found}


def test_scores_keep_their_order_over_batches_and_null_is_nan() -> None:
    told: list[dict[str, Any]] = [{}, {"bonus": 10}, {}, {}, {}]
    with serving(brightness) as url:
        reward = RewardServer(url=f"{url}/score", batch=2)
        found = reward.score(plain(0.0, 0.2, 0.4, 0.6, 0.8), ["a", "b", "pass", "c", "d"], told)
    assert found.isnan().tolist() == [False, False, True, False, False]
    assert found[[0, 1, 3, 4]].tolist() == pytest.approx([0.0, 10.2, 0.6, 0.8], abs=1e-6)


def test_a_request_that_fails_takes_its_own_samples_alone() -> None:
    with serving(brightness) as url:
        reward = RewardServer(url=url, batch=2, retries=0)
        found = reward.score(plain(0.2, 0.4, 0.6), ["a", "crash", "c"], [{}] * 3)
    assert found.isnan().tolist() == [True, True, False]


def test_a_video_is_sent_as_evenly_spaced_frames() -> None:
    video = torch.linspace(0, 1, 5).view(1, 5, 1, 1, 1).expand(1, 5, 3, 4, 4)
    counts = []

    def count(path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        counts.append(len(body["images"][0]))
        return 200, {"scores": [1]}

    with serving(count) as url:
        assert RewardServer(url=url, frames=3).score(video, ["x"], [{}]).tolist() == [1.0]
    assert counts == [3]


@pytest.mark.parametrize("given", WRONG)
def test_answers_that_break_the_contract_are_failures(given: Any) -> None:
    with serving(lambda *_: (200, given)) as url, pytest.raises(RewardFailed, match="score"):
        RewardServer(url=url).score(plain(0.1, 0.2), ["a", "b"], [{}] * 2)


def test_all_null_is_a_failure() -> None:
    with serving(brightness) as url, pytest.raises(RewardFailed, match="judged none of 1 samples"):
        RewardServer(url=url).score(plain(0.1), ["pass"], [{}])
