"""A vision-language model as a judge, behind a server that speaks OpenAI's chat API (vLLM, SGLang)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor

from backend.rewards import judging, scaling
from backend.rewards.judging import RewardFailed
from backend.rewards.picture_reward import evenly
from backend.rewards.served import SHOWN, ServedReward, png

QUESTION = (
    "This picture was generated from a caption. Judge it on two points: does it show everything that the caption "
    "asks for, with the right numbers, colours and places; and is it well made, sharp and free of artefacts? "
    "Say what speaks for and against it in a few sentences. Then end with one line of this form, with a number from "
    "0 (bad) to 5 (perfect), decimals allowed:\nFinal Score: <number>\n\nCaption: {prompt}"
)
ANSWER = r"Final Score:[^\w.-]*(-?[0-9]+(?:\.[0-9]+)?)"


class VisionLanguage(ServedReward):
    """The number in the model's answer; an answer without one is no judgement, and never counts as 0.

    Made for UnifiedReward (CodeGoat24/UnifiedReward-qwen-7b: MIT licence, 8 billion parameters, 17 GB) and for DeQA or
    Qwen2.5-VL with another question. The question is ours: a model that was tuned on one of its own judges best when
    it is asked that one.
    """

    name: Literal["vision_language"] = "vision_language"
    weight: float = scaling.weight("vision_language")
    url: str = Field(
        "http://127.0.0.1:8000/v1",
        pattern=r"^https?://.+",
        description="Root of the server's API, as OpenAI clients take it",
    )
    model: str = Field(
        "CodeGoat24/UnifiedReward-qwen-7b", min_length=1, description="Name under which the server knows the model"
    )
    question: str = Field(QUESTION, min_length=1, description="What is asked; {prompt} stands for the prompt (ours)")
    answer: str = Field(
        ANSWER,
        min_length=1,
        description="Regular expression with one group, the number; its last match counts, in upper or lower case",
    )
    low: float = Field(0.0, description="Least number that is an answer (UnifiedReward 0; DeQA, Qwen-VL 1)")
    high: float = Field(5.0, description="Largest number that is an answer")
    longest: int = Field(
        512, ge=32, le=4096, description="Pictures with a longer side are shrunk to it (UnifiedReward 512)"
    )
    max_tokens: int = Field(512, ge=1, le=32768, description="Most tokens of an answer (ours)")
    at_once: int = Field(16, ge=1, le=512, description="Requests under way at the same time (ours)")

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            groups = re.compile(self.answer).groups
        except re.error as error:
            raise ValueError(f"answer: {self.answer!r} is no regular expression ({error}); correct it") from error
        if groups != 1:
            raise ValueError(f"answer: {self.answer!r} has {groups} groups; mark the number with one pair of ( )")
        if self.low >= self.high:
            raise ValueError(f"low: {self.low} is not below high, {self.high}; give a range of numbers")
        return self

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, F, 3, H, W] in 0..1 -> float64 [N]; NaN without an answer. The frames of a video are one request.

        Raises RewardFailed when no sample has an answer.
        """
        chosen = evenly(frames, self.frames)
        return judging.each(self.name, lambda i: self._one(chosen[i], prompts[i]), len(prompts), self.at_once)

    def _one(self, pictures: Tensor, prompt: str) -> float:
        """pictures [K, 3, H, W] -> the number."""
        shown = [
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(one, self.longest)}"}}
            for one in pictures
        ]
        words = {"type": "text", "text": self.question.replace("{prompt}", prompt)}
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": [*shown, words]}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
        }
        return self.parse(_text(self._ask(self.url.rstrip("/") + "/chat/completions", body)))

    def parse(self, text: str) -> float:
        """The last number that the answer names. Raises RewardFailed where there is none in low .. high."""
        found = re.findall(self.answer, text, re.IGNORECASE)
        try:
            value = float(found[-1])
        except (IndexError, ValueError) as error:
            raise RewardFailed(f"no number in the answer: {text[-SHOWN:]!r}") from error
        if not self.low <= value <= self.high:
            raise RewardFailed(f"the answer's number {value} is not in {self.low} .. {self.high}")
        return value


def _text(answer: Any) -> str:
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise RewardFailed(f"no message in the server's answer: {str(answer)[:SHOWN]}") from error
    if not isinstance(text, str):
        raise RewardFailed(f"no text in the server's message: {str(answer)[:SHOWN]}")
    return text
