"""A whole review set as one record, with everything but the secret tokens."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

NO_NUL = r"^[^\x00]*$"  # PostgreSQL has no place for it

Answer = Literal["left", "right", "tie", "both_bad", "skip"]
Kind = Literal["image", "video"]
Scores = dict[str, float | None]
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=NO_NUL)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArchivedModel(Strict):
    key: Name
    label: str
    run_id: str | None = Field(None, max_length=36)
    step: Count | None = None


class ArchivedPair(Strict):
    """Two samples of one prompt, of two models or, from two noises, of one.

    image_a, image_b: sha256 of stored media, or what another tool called the file. seed: of the noise, and seed_b that
    of B where it is another one. repeat_of: place in the list.
    """

    prompt_index: Count
    prompt: str
    task: str | None = None
    seed: Seed
    seed_b: Seed | None = None
    model_a: str
    model_b: str
    image_a: str
    image_b: str
    kind: Kind
    scores_a: Scores = {}
    scores_b: Scores = {}
    repeat_of: int | None = None
    flipped: bool = False


class ArchivedReviewer(Strict):
    pseudonym: Name
    quota: Count | None = None
    created_at: datetime


class ArchivedVote(Strict):
    """undone_at is None for the vote that stands."""

    choice: Answer
    aspects: dict[str, Answer] = {}
    milliseconds: Count = 0
    created_at: datetime
    undone_at: datetime | None = None


class ArchivedShowing(Strict):
    """pair: place in the list; ordinal: place among the reviewer's showings."""

    pair: int
    reviewer: str
    ordinal: Count
    a_is_left: bool
    shown_at: datetime
    votes: list[ArchivedVote] = []


class SetSettings(Strict):
    """aspects: what is asked; repeats: share of pairs shown twice; active: informative ones first; source: of pairs."""

    aspects: list[str] = ["overall"]
    repeats: float = 0
    active: bool = False
    quota: int | None = None
    source: dict[str, Any] | None = None


class Archive(Strict):
    """Pairs stand in the order they were drawn; showings in that of reviewers, then of ordinals."""

    version: Literal[1] = 1
    name: str
    owner: str
    created_at: datetime
    settings: SetSettings
    seed: Seed
    closed_at: datetime | None = None
    models: list[ArchivedModel] = Field(min_length=1)
    pairs: list[ArchivedPair] = Field(min_length=1)
    reviewers: list[ArchivedReviewer]
    showings: list[ArchivedShowing]

    @model_validator(mode="after")
    def _names_are_there(self) -> Self:
        keys, names = {model.key for model in self.models}, {reviewer.pseudonym for reviewer in self.reviewers}
        for place, pair in enumerate(self.pairs):
            if not {pair.model_a, pair.model_b} <= keys:
                raise ValueError(f"pairs.{place}: its models have to be among those that the file lists")
            if pair.repeat_of is not None and not 0 <= pair.repeat_of < place:
                raise ValueError(f"pairs.{place}.repeat_of: {pair.repeat_of} is not an earlier pair")
        for place, shown in enumerate(self.showings):
            if shown.reviewer not in names or not 0 <= shown.pair < len(self.pairs):
                raise ValueError(f"showings.{place}: its pair or reviewer is not in the file")
            if sum(vote.undone_at is None for vote in shown.votes) > 1:
                raise ValueError(f"showings.{place}.votes: only one of them may stand")
        counts: dict[str, Counter[Any]] = {
            "models": Counter(model.key for model in self.models),
            "reviewers": Counter(reviewer.pseudonym for reviewer in self.reviewers),
            "showings": Counter((shown.reviewer, shown.pair) for shown in self.showings),
            "showings' ordinals": Counter((shown.reviewer, shown.ordinal) for shown in self.showings),
        }
        for what, counted in counts.items():
            if twice := [one for one, count in counted.items() if count > 1]:
                raise ValueError(f"{what}: {twice[0]!r} is there twice")
        return self
