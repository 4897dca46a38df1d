"""Asking a server: repeats, patience, and what counts as a failure."""

from __future__ import annotations

import base64
import io
import socket
import time
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from backend.rewards.judging import RewardFailed
from backend.rewards.served import ServedReward, png
from tests.backend.rewards.http_server import Answer, serving


class Calls:
    """Answers with the given ones in turn, the last one for ever; remembers when it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers
        self.times: list[float] = []

    def __call__(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        self.times.append(time.monotonic())
        return self.answers[min(len(self.times), len(self.answers)) - 1]


def test_a_busy_server_is_asked_again_after_longer_and_longer() -> None:
    calls = Calls((503, "starting"), (429, "busy"), (200, {"fine": True}))
    with serving(calls) as url:
        assert ServedReward(backoff=0.1)._ask(url, {}) == {"fine": True}
    first, second, third = calls.times
    assert second - first >= 0.1
    assert third - second >= 0.2


def test_after_the_last_try_it_fails_with_the_last_answer() -> None:
    calls = Calls((500, "out of memory"))
    with serving(calls) as url, pytest.raises(RewardFailed, match="answered 500: out of memory; asked 3 times"):
        ServedReward(backoff=0, retries=2)._ask(url, {})
    assert len(calls.times) == 3


def test_a_mistake_of_ours_is_not_repeated() -> None:
    calls = Calls((404, "no such model"))
    with serving(calls) as url, pytest.raises(RewardFailed, match="answered 404: no such model"):
        ServedReward(backoff=0)._ask(url, {})
    assert len(calls.times) == 1


def test_a_server_that_is_slow_or_not_there_did_not_answer() -> None:
    def slow(path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        time.sleep(0.5)
        return 200, {}

    with serving(slow) as url, pytest.raises(RewardFailed, match="ReadTimeout"):
        ServedReward(timeout=0.1, retries=0)._ask(url, {})
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        nobody = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(RewardFailed, match="ConnectError"):
            ServedReward(retries=1, backoff=0)._ask(nobody, {})


def test_an_answer_that_is_not_json_is_a_failure() -> None:
    with serving(Calls((200, "<html>"))) as url, pytest.raises(RewardFailed, match="not JSON: <html>"):
        ServedReward()._ask(url, {})


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        seen.append(headers.get("authorization"))
        return 200, {}

    monkeypatch.setenv("JUDGE_KEY", "secret")
    with serving(answer) as url:
        ServedReward(key_variable="JUDGE_KEY")._ask(url, {})
        ServedReward()._ask(url, {})
        monkeypatch.delenv("JUDGE_KEY")
        with pytest.raises(ValueError, match="JUDGE_KEY is not set"):
            ServedReward(key_variable="JUDGE_KEY")._ask(url, {})
    assert seen == ["Bearer secret", None]


def decoded(text: str) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(base64.b64decode(text))))


def test_png_keeps_every_level_and_shrinks_only_what_is_too_large(pictures: Tensor) -> None:
    levels = (pictures[0, 0] * 255).round().byte().permute(1, 2, 0).numpy()
    assert np.array_equal(decoded(png(pictures[0, 0])), levels)
    assert np.array_equal(decoded(png(pictures[0, 0], longest=28)), levels)
    assert decoded(png(pictures[0, 0], longest=14)).shape == (10, 14, 3)
    assert np.array_equal(decoded(png(torch.ones(3, 2, 2).double())), np.full((2, 2, 3), 255))
