"""One vote as the reviewer saw it, which is what the files of other tools hold, and sets made of such votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from backend.preferences.archive import (
    Answer,
    Archive,
    ArchivedModel,
    ArchivedPair,
    ArchivedReviewer,
    ArchivedShowing,
    ArchivedVote,
    Kind,
    Scores,
    SetSettings,
)


@dataclass(frozen=True)
class Opinion:
    """One vote that stands, as the reviewer saw it: left and right are pictures, choice and aspects name sides.

    seed: of the noise, and seed_right that of the right one where it is another.
    """

    prompt: str
    left: str
    right: str
    model_left: str
    model_right: str
    choice: Answer
    reviewer: str
    aspects: dict[str, Answer] = Field(default_factory=dict)
    created_at: datetime | None = None
    milliseconds: int = 0
    seed: int = 0
    task: str | None = None
    kind: Kind = "image"
    scores_left: Scores = Field(default_factory=dict)
    scores_right: Scores = Field(default_factory=dict)
    seed_right: int | None = None

    @property
    def seeds(self) -> tuple[int, int]:
        """Of the left and of the right one."""
        return self.seed, self.seed if self.seed_right is None else self.seed_right


def opinions(archive: Archive) -> list[Opinion]:
    """The votes that stand, oldest first."""
    found = []
    for shown in archive.showings:
        for vote in shown.votes:
            if vote.undone_at is None:
                found.append(_opinion(archive.pairs[shown.pair], shown, vote))
    return sorted(found, key=lambda one: one.created_at or datetime.min.replace(tzinfo=UTC))


def _opinion(pair: ArchivedPair, shown: ArchivedShowing, vote: ArchivedVote) -> Opinion:
    a = (pair.image_a, pair.model_a, pair.scores_a, pair.seed)
    b = (pair.image_b, pair.model_b, pair.scores_b, pair.seed if pair.seed_b is None else pair.seed_b)
    left, right = (a, b) if shown.a_is_left else (b, a)
    return Opinion(
        prompt=pair.prompt,
        left=left[0],
        right=right[0],
        model_left=left[1],
        model_right=right[1],
        choice=vote.choice,
        reviewer=shown.reviewer,
        aspects=vote.aspects,
        created_at=vote.created_at,
        milliseconds=vote.milliseconds,
        seed=left[3],
        seed_right=None if right[3] == left[3] else right[3],
        task=pair.task,
        kind=pair.kind,
        scores_left=left[2],
        scores_right=right[2],
    )


def gather(found: Sequence[Opinion], name: str, owner: str, now: datetime) -> Archive:
    """A closed set of these votes. A reviewer's second vote on a pair becomes a repeat. ValueError without votes."""
    if not found:
        raise ValueError("file: there is no vote in it")
    prompts = {text: place for place, text in enumerate(dict.fromkeys(one.prompt for one in found))}
    seen: Counter[Any] = Counter()
    places: dict[Any, int] = {}
    pairs: list[ArchivedPair] = []
    shown: dict[str, list[ArchivedShowing]] = {}
    sides: dict[Any, bool] = {}
    for one in found:
        a_is_left = (one.left, one.model_left) <= (one.right, one.model_right)
        key = (
            one.prompt,
            frozenset(zip((one.left, one.right), (one.model_left, one.model_right), one.seeds, strict=True)),
        )
        time = seen[key, one.reviewer]
        seen[key, one.reviewer] += 1
        flipped = sides.setdefault((key, one.reviewer), a_is_left) != a_is_left
        place = places.setdefault((key, time, flipped), len(pairs))
        if place == len(pairs):
            pairs.append(_pair(one, a_is_left, prompts[one.prompt], places[key, 0, False] if time else None, flipped))
        own = shown.setdefault(one.reviewer, [])
        when = one.created_at or now
        vote = ArchivedVote(choice=one.choice, aspects=one.aspects, milliseconds=one.milliseconds, created_at=when)
        own.append(
            ArchivedShowing(
                pair=place, reviewer=one.reviewer, ordinal=len(own), a_is_left=a_is_left, shown_at=when, votes=[vote]
            )
        )
    keys = sorted({model for one in pairs for model in (one.model_a, one.model_b)})
    aspects = sorted({aspect for one in found for aspect in one.aspects} - {"overall"})
    return Archive(
        name=name,
        owner=owner,
        created_at=now,
        closed_at=now,
        seed=0,
        settings=SetSettings(aspects=["overall", *aspects]),
        models=[ArchivedModel(key=key, label=key) for key in keys],
        pairs=pairs,
        reviewers=[ArchivedReviewer(pseudonym=reviewer, created_at=now) for reviewer in shown],
        showings=[showing for own in shown.values() for showing in own],
    )


def _pair(one: Opinion, a_is_left: bool, prompt_index: int, repeat_of: int | None, flipped: bool) -> ArchivedPair:
    left = (one.left, one.model_left, one.scores_left, one.seeds[0])
    right = (one.right, one.model_right, one.scores_right, one.seeds[1])
    a, b = (left, right) if a_is_left else (right, left)
    return ArchivedPair(
        prompt_index=prompt_index,
        prompt=one.prompt,
        task=one.task,
        seed=a[3],
        seed_b=None if b[3] == a[3] else b[3],
        model_a=a[1],
        model_b=b[1],
        image_a=a[0],
        image_b=b[0],
        kind=one.kind,
        scores_a=a[2],
        scores_b=b[2],
        repeat_of=repeat_of,
        flipped=flipped,
    )
