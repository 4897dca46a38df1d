"""Samples that a reward cannot judge: left out, counted, and never a number."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from backend.rewards import judging
from backend.rewards.judging import RewardFailed

NAN = float("nan")
FRAMES = torch.zeros(3, 1, 3, 2, 2)


@dataclass(frozen=True)
class Fixed:
    """Scores that are given; a text is the reason of a failure."""

    name: str
    found: list[float] | str
    weight: float = 1.0
    differentiable: ClassVar[bool] = False

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        if isinstance(self.found, str):
            raise RewardFailed(self.found)
        return torch.tensor(self.found, dtype=torch.float64)


def table(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_reward_that_fails_is_nan_for_all_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    found = judging.score([Fixed("a", [1.0, 2.0, 3.0]), Fixed("b", "no answer")], FRAMES, ["x"] * 3, [{}] * 3)
    assert found.parts["a"].tolist() == [1.0, 2.0, 3.0]
    assert found.parts["b"].isnan().all()
    assert found.reasons == {"b": "no answer"}
    assert "reward b judged none of 3 samples: no answer" in caplog.text


def test_the_total_is_the_weighted_sum_where_every_reward_judged() -> None:
    found = judging.total({"a": table(1.0, NAN, 3.0, 4.0), "b": table(10.0, 20.0, NAN, 0.0)}, {"a": 2.0, "b": 0.5})
    assert found.isnan().tolist() == [False, True, True, False]
    assert (float(found[0]), float(found[3])) == (7.0, 8.0)


def test_a_weight_of_0_does_not_hide_a_failure() -> None:
    assert judging.total({"a": table(1.0, NAN)}, {"a": 0.0}).isnan().tolist() == [False, True]


def test_nothing_judged_or_something_infinite_is_an_error_that_counts() -> None:
    with pytest.raises(RewardFailed, match="b failed on 2 of 2 samples"):
        judging.total({"a": table(1.0, 1.0), "b": table(NAN, NAN)}, {"a": 1.0, "b": 1.0})
    with pytest.raises(RewardFailed, match="a became infinite"):
        judging.total({"a": table(1.0, float("inf"))}, {"a": 1.0})


def test_failures_are_counted_under_the_rewards_name() -> None:
    assert judging.failures({"a": table(1.0, NAN, NAN), "b": table(1.0, 2.0, 3.0)}) == {"train/reward_failed_a": 2.0}


def test_each_asks_at_once_and_keeps_the_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    meeting = threading.Barrier(3, timeout=20)  # passes only when three are asked at the same time

    def ask(index: int) -> float:
        meeting.wait()
        if index == 1:
            raise RewardFailed("it hid")
        return index / 2

    found = judging.each("judge", ask, 3, at_once=3)
    assert found.isnan().tolist() == [False, True, False]
    assert (float(found[0]), float(found[2])) == (0.0, 1.0)
    assert "reward judge: 1 of 3 requests failed, first: it hid" in caplog.text


def test_each_fails_when_all_do_and_does_not_catch_mistakes() -> None:
    def fail(index: int) -> float:
        raise RewardFailed("gone")

    def mistake(index: int) -> float:
        raise ZeroDivisionError

    with pytest.raises(RewardFailed, match="gone"):
        judging.each("judge", fail, 2, at_once=2)
    with pytest.raises(ZeroDivisionError):
        judging.each("judge", mistake, 2, at_once=2)
