"""A vision-language judge: what is sent, how answers are read, and that silence is not 0."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from backend.rewards.judging import RewardFailed
from backend.rewards.vision_language import VisionLanguage
from tests.backend.rewards.http_server import Answer, serving

BROKEN: list[Any] = [{}, {"choices": []}, {"choices": [{"message": {"content": None}}]}, []]


def message(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def brightness(path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
    """Judges by the mean level of the last picture; says nothing of use where the caption asks it to."""
    *pictures, words = body["messages"][0]["content"]
    if "silence" in words["text"]:
        return 200, message("I would rather not say.")
    data = base64.b64decode(pictures[-1]["image_url"]["url"].removeprefix("data:image/png;base64,"))
    level = float(np.array(Image.open(io.BytesIO(data))).mean()) / 255
    return 200, message(f"It is bright, worth 1 of 5 at least.\n**Final Score:** {5 * level:.2f}")


def plain(*levels: float) -> Tensor:
    return torch.stack([torch.full((1, 3, 8, 8), level) for level in levels])


def test_each_sample_gets_the_number_of_its_own_answer_and_silence_is_nan() -> None:
    with serving(brightness) as url:
        reward = VisionLanguage(url=f"{url}/v1/")
        found = reward.score(plain(0.2, 0.4, 0.6, 1.0), ["a", "b", "silence", "d"])
    assert found[[0, 1, 3]].tolist() == pytest.approx([1.0, 2.0, 5.0], abs=0.01)
    assert found.isnan().tolist() == [False, False, True, False]


def test_pitfall_47_when_nobody_answers_it_fails_and_does_not_become_0() -> None:
    with serving(brightness) as url, pytest.raises(RewardFailed, match="no number in the answer: 'I would rather not"):
        VisionLanguage(url=f"{url}/v1").score(plain(0.5), ["silence"])


def test_what_is_sent() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        seen.append((path, body))
        return 200, message("Final Score: 3")

    video = torch.zeros(1, 9, 3, 8, 8)
    with serving(answer) as url:
        reward = VisionLanguage(url=f"{url}/v1", model="judge", frames=3, question="How is {prompt}?")
        assert reward.score(video, ["{a} cat"]).tolist() == [3.0]
    ((path, body),) = seen
    assert path == "/v1/chat/completions"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("judge", 0, 512)
    content = body["messages"][0]["content"]
    assert [one["type"] for one in content] == ["image_url"] * 3 + ["text"]
    assert content[-1]["text"] == "How is {a} cat?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Final Score: 4", 4.0),
        ("final score: 4.25.", 4.25),
        ("**Final Score:** [3.5]", 3.5),
        ("Final Score: 1\nOn reflection:\nFinal Score: 2", 2.0),
    ],
)
def test_the_last_number_counts(text: str, expected: float) -> None:
    assert VisionLanguage().parse(text) == expected


@pytest.mark.parametrize("text", ["", "4", "Final Score: good", "Final Score: 7", "Final Score: -1"])
def test_an_answer_without_a_number_in_the_range_is_no_judgement(text: str) -> None:
    with pytest.raises(RewardFailed):
        VisionLanguage().parse(text)


@pytest.mark.parametrize("given", BROKEN)
def test_an_answer_of_another_form_is_no_judgement(given: Any) -> None:
    with serving(lambda *_: (200, given)) as url, pytest.raises(RewardFailed, match="in the server's"):
        VisionLanguage(url=f"{url}/v1").score(plain(0.5), ["x"])


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong, told in (
        ({"answer": "("}, "no regular expression"),
        ({"answer": "x"}, "0 groups"),
        ({"low": 5.0}, "low"),
    ):
        with pytest.raises(ValueError, match=re.escape(told)):
            VisionLanguage.model_validate(wrong)
