"""Review sets: the models they compare, the pairs to judge, and who judges them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, func, select, update
from sqlalchemy.orm import Session

from db.models import Artifact, Reviewer, ReviewModel, ReviewPair, ReviewSet, Showing, Vote, utc_now
from db.runs import new_id

BEFORE_ALL = 1_000_000_000


@dataclass(frozen=True)
class Counts:
    """Of one set. votes: those that stand."""

    pairs: int
    votes: int
    reviewers: int


def create(
    session: Session,
    *,
    name: str,
    owner: str,
    settings: dict[str, Any],
    seed: int,
    models: Sequence[dict[str, Any]],
    pairs: Sequence[dict[str, Any]],
) -> ReviewSet:
    """A set with its models and pairs.

    models have key, label, run_id and step; pairs the columns of ReviewPair from prompt_index to flipped, in the order
    of handing out, with repeat_of as the place in that order.
    """
    made = ReviewSet(id=new_id(), name=name, owner=owner, settings=settings, seed=seed)
    session.add(made)
    session.flush()
    session.add_all(ReviewModel(set_id=made.id, **model) for model in models)
    rows = [
        ReviewPair(set_id=made.id, ordinal=place, place=place, **(pair | {"repeat_of": None}))
        for place, pair in enumerate(pairs)
    ]
    session.add_all(rows)
    session.flush()
    for row, pair in zip(rows, pairs, strict=True):
        if pair["repeat_of"] is not None:
            row.repeat_of = rows[pair["repeat_of"]].id
    session.flush()
    return made


def get(session: Session, set_id: str) -> ReviewSet:
    """LookupError when there is none."""
    found = session.get(ReviewSet, set_id, populate_existing=True)
    if found is None:
        raise LookupError(f"review set {set_id}: there is none of this id")
    return found


def listing(session: Session, limit: int = 200) -> list[tuple[ReviewSet, Counts]]:
    """Newest first."""
    rows = list(session.scalars(select(ReviewSet).order_by(ReviewSet.id.desc()).limit(limit)))
    counted = counts(session, [row.id for row in rows])
    return [(row, counted[row.id]) for row in rows]


def counts(session: Session, set_ids: Sequence[str]) -> dict[str, Counts]:
    pairs, reviewers = (
        dict(
            session.execute(select(row.set_id, func.count()).where(row.set_id.in_(set_ids)).group_by(row.set_id)).all()
        )
        for row in (ReviewPair, Reviewer)
    )
    voted = (
        select(Reviewer.set_id, func.count())
        .join(Showing, Showing.reviewer_id == Reviewer.id)
        .join(Vote, Vote.showing_id == Showing.id)
        .where(Reviewer.set_id.in_(set_ids), Vote.undone_at.is_(None))
        .group_by(Reviewer.set_id)
    )
    votes = dict(session.execute(voted).all())
    return {one: Counts(pairs.get(one, 0), votes.get(one, 0), reviewers.get(one, 0)) for one in set_ids}


def models(session: Session, set_id: str) -> list[ReviewModel]:
    """By step where known: the base first."""
    rows = session.scalars(select(ReviewModel).filter_by(set_id=set_id))
    return sorted(rows, key=lambda row: (row.step is None, row.step or 0, row.key))


def pairs(session: Session, set_id: str) -> list[ReviewPair]:
    """As they were drawn."""
    return list(session.scalars(select(ReviewPair).filter_by(set_id=set_id).order_by(ReviewPair.ordinal)))


def has_media(session: Session, set_id: str) -> bool:
    """Whether every picture of the set is stored here."""
    known = select(Artifact.sha256)
    lacking = ReviewPair.sha_a.not_in(known) | ReviewPair.sha_b.not_in(known)
    return session.scalar(select(ReviewPair.id).where(ReviewPair.set_id == set_id, lacking).limit(1)) is None


def prefer(session: Session, set_id: str, pair_ids: Sequence[int]) -> None:
    """Of the pairs that were handed out equally often, these come first, in this order, then the others as drawn.

    Repeats come before all of them, as soon as they may.
    """
    place = case((ReviewPair.repeat_of.is_not(None), ReviewPair.ordinal - BEFORE_ALL), else_=ReviewPair.ordinal)
    session.execute(
        update(ReviewPair).where(ReviewPair.set_id == set_id, ReviewPair.place != place).values(place=place)
    )
    first = -len(pair_ids)
    for place_of, pair_id in enumerate(pair_ids, first):
        session.execute(update(ReviewPair).where(ReviewPair.id == pair_id).values(place=place_of))


def invite(session: Session, set_id: str, pseudonym: str, quota: int | None) -> Reviewer:
    """A reviewer with a secret token of 128 random bits. ValueError when the set has this pseudonym already."""
    if session.scalar(select(Reviewer.id).filter_by(set_id=set_id, pseudonym=pseudonym)):
        raise ValueError(f"pseudonym: {pseudonym!r} is a reviewer of this set already; choose another one")
    reviewer = Reviewer(id=new_id(), set_id=set_id, token=secrets.token_urlsafe(16), pseudonym=pseudonym, quota=quota)
    session.add(reviewer)
    session.flush()
    return reviewer


def pair(session: Session, set_id: str, pair_id: int) -> ReviewPair:
    """LookupError when the set has none of this id."""
    found = session.scalar(select(ReviewPair).filter_by(id=pair_id, set_id=set_id))
    if found is None:
        raise LookupError(f"pair {pair_id}: the review set has none of this id")
    return found


def reviewers(session: Session, set_id: str) -> list[tuple[Reviewer, int]]:
    """In the order they were invited, each with the number of their votes that stand."""
    query = (
        select(Reviewer, func.count(Vote.id))
        .outerjoin(Showing, Showing.reviewer_id == Reviewer.id)
        .outerjoin(Vote, (Vote.showing_id == Showing.id) & Vote.undone_at.is_(None))
        .where(Reviewer.set_id == set_id)
        .group_by(Reviewer.id)
        .order_by(Reviewer.id)
    )
    return [(reviewer, count) for reviewer, count in session.execute(query)]


def close(session: Session, set_id: str) -> None:
    """No vote is taken until it is opened again."""
    found = get(session, set_id)
    found.closed_at = found.closed_at or utc_now()


def open_again(session: Session, set_id: str) -> None:
    get(session, set_id).closed_at = None
