"""A reviewer's desk: which pairs lie before them, and which comes next.

Handing out and voting happen in one short transaction that first locks the set, so that reviewers, tabs and requests
that were sent twice take turns. (On SQLite a writing transaction is alone in any case.) A vote waits for all of it, so
the statements on its way are built once.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.orm import Session, aliased

from db.models import Reviewer, ReviewPair, ReviewSet, Showing, Vote
from db.session import engine, writing

AHEAD = 2  # showings without an answer that a reviewer holds: the current one, and the next one to load early
GAP = 5  # showings of a reviewer between a pair and its repeat, while there are other pairs to show
NEVER = 2**31 - 1

_turn = threading.Lock()

STANDS = Vote.undone_at.is_(None)


@dataclass(frozen=True)
class Seat:
    """A reviewer at their set. total: pairs they are to judge."""

    reviewer: Reviewer
    set: ReviewSet
    total: int


@dataclass(frozen=True)
class Shown:
    """A pair as a reviewer gets to know it."""

    id: str
    prompt: str
    kind: str


@dataclass(frozen=True)
class Desk:
    """done: votes that stand. current is None when everything is judged, and when the set is closed."""

    done: int
    current: Shown | None
    next: Shown | None


mine, first = aliased(Showing), aliased(Showing)

SEAT = (
    select(Reviewer, ReviewSet)
    .join(ReviewSet, ReviewSet.id == Reviewer.set_id)
    .where(Reviewer.token == bindparam("token"))
    .with_for_update(of=ReviewSet, key_share=True)
)
NUM_PAIRS = select(func.count()).where(ReviewPair.set_id == bindparam("set"))
STATE = (
    select(func.count(Vote.id), func.max(Showing.ordinal))
    .select_from(Showing)
    .outerjoin(Vote, (Vote.showing_id == Showing.id) & STANDS)
    .where(Showing.reviewer_id == bindparam("reviewer"))
)
UNANSWERED = (
    select(Showing.id, ReviewPair.prompt, ReviewPair.kind)
    .join(ReviewPair, ReviewPair.id == Showing.pair_id)
    .outerjoin(Vote, (Vote.showing_id == Showing.id) & STANDS)
    .where(Showing.reviewer_id == bindparam("reviewer"), Vote.id.is_(None))
    .order_by(Showing.ordinal)
)
# Of the pairs not shown to this reviewer, the one handed out least often so far. A repeat needs a first view by the
# same reviewer, at an ordinal below `before`; first.a_is_left says on which side A was then.
NEXT_PAIR = (
    select(ReviewPair.id, ReviewPair.prompt, ReviewPair.kind, ReviewPair.flipped, first.a_is_left)
    .outerjoin(mine, (mine.pair_id == ReviewPair.id) & (mine.reviewer_id == bindparam("reviewer")))
    .outerjoin(first, (first.pair_id == ReviewPair.repeat_of) & (first.reviewer_id == bindparam("reviewer")))
    .where(
        ReviewPair.set_id == bindparam("set"),
        mine.id.is_(None),
        ReviewPair.repeat_of.is_(None) | (first.ordinal < bindparam("before")),
    )
    .order_by(ReviewPair.handed, ReviewPair.place)
    .limit(1)
)
HAND_OUT = insert(Showing)
COUNT_HANDED = (
    update(ReviewPair)
    .where(ReviewPair.id == bindparam("pair"))
    .values(handed=ReviewPair.handed + bindparam("change"))
    .execution_options(synchronize_session=False)
)


@contextmanager
def taking_turns() -> Iterator[Session]:
    """A writing transaction for a request of a reviewer.

    SQLite waits for its lock by trying again after growing pauses, so that with 20 people some wait for seconds;
    requests of one server queue up before it instead.
    """
    with _turn if engine().dialect.name == "sqlite" else nullcontext(), writing() as session:
        yield session


def sit(session: Session, token: str) -> Seat:
    """The reviewer with this token, with their set locked. LookupError when there is none."""
    row = session.execute(SEAT, {"token": token}).one_or_none()
    if row is None:
        raise LookupError("this link is not known; ask for a new one")
    reviewer, review_set = row
    num_pairs = session.scalars(NUM_PAIRS, {"set": review_set.id}).one()
    return Seat(reviewer, review_set, num_pairs if reviewer.quota is None else min(reviewer.quota, num_pairs))


def desk(session: Session, seat: Seat) -> Desk:
    """What lies before the reviewer; pairs are handed out until two are without an answer."""
    done, last = session.execute(STATE, {"reviewer": seat.reviewer.id}).one()
    if seat.set.closed_at is not None:
        return Desk(done, None, None)
    waiting = [Shown(*row) for row in session.execute(UNANSWERED, {"reviewer": seat.reviewer.id})]
    ordinal = 0 if last is None else last + 1
    while len(waiting) < AHEAD and ordinal < seat.total and (shown := _hand_out(session, seat, ordinal)) is not None:
        waiting.append(shown)
        ordinal += 1
    current, following, *_ = [*waiting, None, None]
    return Desk(done, current, following)


def get(session: Session, showing_id: str) -> tuple[Showing, ReviewPair]:
    """LookupError when there is none."""
    row = session.execute(select(Showing, ReviewPair).join(ReviewPair).where(Showing.id == showing_id)).one_or_none()
    if row is None:
        raise LookupError("showing: there is none of this id")
    return row[0], row[1]


def listing(session: Session, set_id: str) -> list[tuple[Showing, ReviewPair, str]]:
    """All of a set with the reviewer's pseudonym, in the order of reviewers and showings."""
    query = (
        select(Showing, ReviewPair, Reviewer.pseudonym)
        .join(ReviewPair, ReviewPair.id == Showing.pair_id)
        .join(Reviewer, Reviewer.id == Showing.reviewer_id)
        .where(Reviewer.set_id == set_id)
        .order_by(Reviewer.id, Showing.ordinal)
    )
    return [(showing, pair, pseudonym) for showing, pair, pseudonym in session.execute(query)]


def count_handed(session: Session, pair_id: int, change: int) -> None:
    """A skipped pair counts as not handed out, so that others get it."""
    session.execute(COUNT_HANDED, {"pair": pair_id, "change": change})


def _hand_out(session: Session, seat: Seat, ordinal: int) -> Shown | None:
    """Puts one more pair before the reviewer, if one is left."""
    at = {"reviewer": seat.reviewer.id, "set": seat.set.id}
    found = (
        session.execute(NEXT_PAIR, at | {"before": ordinal - GAP}).one_or_none()
        or session.execute(NEXT_PAIR, at | {"before": NEVER}).one_or_none()
    )
    if found is None:
        return None
    pair_id, prompt, kind, flipped, first_is_left = found
    showing = {
        "id": secrets.token_hex(16),
        "pair_id": pair_id,
        "reviewer_id": seat.reviewer.id,
        "ordinal": ordinal,
        "a_is_left": bool(secrets.randbits(1)) if first_is_left is None else first_is_left != flipped,
    }
    session.execute(HAND_OUT, showing)
    count_handed(session, pair_id, 1)
    return Shown(str(showing["id"]), prompt, kind)
