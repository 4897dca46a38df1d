"""A small review set for tests: two models on some prompts."""

from __future__ import annotations

from typing import Any

from db import reviews, showings, votes
from db.models import Reviewer, ReviewSet
from db.session import writing
from db.showings import Desk, Seat
from db.votes import Answer


def pair(prompt_index: int, repeat_of: int | None = None, flipped: bool = False) -> dict[str, Any]:
    return {
        "prompt_index": prompt_index,
        "prompt": f"prompt {prompt_index}",
        "task": None,
        "seed": 2**40 + prompt_index,
        "model_a": "base",
        "model_b": "tuned",
        "sha_a": "a" * 64,
        "sha_b": "b" * 64,
        "kind": "image",
        "scores_a": {"strict": 0.0},
        "scores_b": {"strict": 1.0},
        "repeat_of": repeat_of,
        "flipped": flipped,
    }


def make_set(pairs: list[dict[str, Any]], *, active: bool = False) -> ReviewSet:
    models = [
        {"key": "base", "label": "base", "run_id": None, "step": 0},
        {"key": "tuned", "label": "tuned step 9", "run_id": "r", "step": 9},
    ]
    settings = {"aspects": ["overall", "quality"], "repeats": 0, "active": active, "quota": None, "source": None}
    with writing() as session:
        return reviews.create(session, name="set", owner="ada", settings=settings, seed=1, models=models, pairs=pairs)


def invite(review_set: ReviewSet, pseudonym: str = "ada", quota: int | None = None) -> Reviewer:
    with writing() as session:
        return reviews.invite(session, review_set.id, pseudonym, quota)


def sit(reviewer: Reviewer) -> Desk:
    with showings.taking_turns() as session:
        return showings.desk(session, showings.sit(session, reviewer.token))


def cast(
    reviewer: Reviewer, showing: str, choice: str = "left", key: str = "", aspects: dict[str, str] | None = None
) -> tuple[bool, Desk]:
    with showings.taking_turns() as session:
        seat = showings.sit(session, reviewer.token)
        counted = votes.cast(session, seat, showing, Answer(choice, aspects or {}, 1200, key or f"key of {showing}"))
        return counted, showings.desk(session, seat)


def undo(reviewer: Reviewer) -> tuple[bool, Desk]:
    with showings.taking_turns() as session:
        seat: Seat = showings.sit(session, reviewer.token)
        done = votes.undo(session, seat)
        return done, showings.desk(session, seat)


def current(desk: Desk) -> str:
    assert desk.current is not None
    return desk.current.id
