"""The record that all statistics of judging start from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Choice = Literal["a", "b", "tie", "both_bad"]
CHOICES: tuple[Choice, ...] = get_args(Choice)

_SCORE_OF_A = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}


@dataclass(frozen=True)
class Judgement:
    """One answer of one reviewer about one pair, on one aspect. Skipped and undone votes are not judgements.

    pair        id of the pair that was judged
    prompt      id of its prompt: votes on one prompt depend on each other, so intervals resample whole prompts
    model_a, model_b   keys of the two models; equal where one model's samples from two noises are compared
    choice      which of the two is better; "tie" and "both_bad" each count as half a win for both
    a_was_left  the side that model_a stood on
    aspect      "overall", or what else was asked
    repeat_of   id of the pair that this one shows again: such a judgement tells how far a reviewer agrees with
                themselves and counts for nothing else
    """

    pair: str
    prompt: str
    model_a: str
    model_b: str
    choice: Choice
    reviewer: str
    a_was_left: bool
    aspect: str = "overall"
    repeat_of: str | None = None

    def __post_init__(self) -> None:
        if self.choice not in CHOICES:
            raise ValueError(f"choice: {self.choice!r} is none of {', '.join(CHOICES)}; leave skipped votes out")

    @property
    def of_one_model(self) -> bool:
        """Whether both samples are of one model: such a judgement tells samples apart, and says nothing of models."""
        return self.model_a == self.model_b

    @property
    def score_of_a(self) -> float:
        """1 where a is better, 0 where b is, 0.5 where neither is."""
        return _SCORE_OF_A[self.choice]

    @property
    def better(self) -> str | None:
        """Key of the better sample's model, None where neither is better."""
        return {"a": self.model_a, "b": self.model_b}.get(self.choice)

    @property
    def chose_left(self) -> bool | None:
        """Whether the left one was called better, None where neither was."""
        return None if self.better is None else (self.choice == "a") == self.a_was_left


def first_views(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Those that are not repeats."""
    return [one for one in judgements if one.repeat_of is None]
