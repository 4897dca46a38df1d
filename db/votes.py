"""Votes of reviewers: given once for each showing, taken back from the last one on, read by the set."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.orm import Session

from db.models import Reviewer, ReviewPair, Showing, Vote, utc_now
from db.showings import STANDS, Seat, count_handed


@dataclass(frozen=True)
class Answer:
    """choice, and that of each aspect: left, right, tie, both_bad or skip. milliseconds: how long it took."""

    choice: str
    aspects: dict[str, str]
    milliseconds: int
    client_key: str


@dataclass(frozen=True)
class Ballot:
    """A vote with the showing and the pair that it is about."""

    vote: Vote
    showing: Showing
    pair: ReviewPair
    reviewer: str


PAIR_SHOWN = select(Showing.pair_id).where(
    Showing.id == bindparam("showing"), Showing.reviewer_id == bindparam("reviewer")
)
EARLIER = select(Vote.showing_id, Vote.choice, Vote.aspects, Vote.client_key).where(
    (Vote.client_key == bindparam("key")) | ((Vote.showing_id == bindparam("showing")) & STANDS)
)
CAST = insert(Vote)


def cast(session: Session, seat: Seat, showing_id: str, answer: Answer) -> bool:
    """Stores an answer unless it is there already. False: the set is closed, or another answer to the showing stands.

    LookupError when the showing is not one of this reviewer's.
    """
    pair_id = session.scalar(PAIR_SHOWN, {"showing": showing_id, "reviewer": seat.reviewer.id})
    if pair_id is None:
        raise LookupError("showing: not one of this reviewer's")
    earlier = session.execute(EARLIER, {"showing": showing_id, "key": answer.client_key}).all()
    if earlier:
        sent_before = [row for row in earlier if row.client_key == answer.client_key]
        told = (sent_before or earlier)[0]
        return (told.showing_id, told.choice, told.aspects) == (showing_id, answer.choice, answer.aspects)
    if seat.set.closed_at is not None:
        return False
    session.execute(CAST, {"showing_id": showing_id, **asdict(answer)})
    if answer.choice == "skip":
        count_handed(session, pair_id, -1)
    return True


def undo(session: Session, seat: Seat) -> bool:
    """Takes back the reviewer's last vote that stands. False when there is none, or the set is closed."""
    last = session.execute(
        select(Vote, Showing.pair_id)
        .join(Showing)
        .where(Showing.reviewer_id == seat.reviewer.id, STANDS)
        .order_by(Vote.id.desc())
        .limit(1)
    ).one_or_none()
    if last is None or seat.set.closed_at is not None:
        return False
    vote, pair_id = last
    vote.undone_at = utc_now()
    session.flush()
    if vote.choice == "skip":
        count_handed(session, pair_id, 1)
    return True


def version(session: Session, set_id: str) -> tuple[int, int]:
    """Changes with every vote and every undo: the newest vote's id, and how many stand."""
    query = select(func.max(Vote.id), func.count().filter(STANDS)).join(Showing, Showing.id == Vote.showing_id)
    newest, standing = session.execute(
        query.join(Reviewer, Reviewer.id == Showing.reviewer_id).where(Reviewer.set_id == set_id)
    ).one()
    return newest or 0, standing


def all_votes(session: Session, set_id: str) -> list[Vote]:
    """Those that stand and those that were undone, oldest first."""
    query = select(Vote).join(Showing).join(Reviewer, Reviewer.id == Showing.reviewer_id)
    return list(session.scalars(query.where(Reviewer.set_id == set_id).order_by(Vote.id)))


def standing(session: Session, set_id: str) -> list[Ballot]:
    """The votes that stand, oldest first, skips among them."""
    query = (
        select(Vote, Showing, ReviewPair, Reviewer.pseudonym)
        .join(Showing, Showing.id == Vote.showing_id)
        .join(ReviewPair, ReviewPair.id == Showing.pair_id)
        .join(Reviewer, Reviewer.id == Showing.reviewer_id)
        .where(Reviewer.set_id == set_id, STANDS)
        .order_by(Vote.id)
    )
    return [Ballot(*row) for row in session.execute(query)]
