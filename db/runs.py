"""Runs and their states: who may move one where, who holds it, and until when.

A supervisor claims a run with one statement and gets an attempt number. Whatever it writes later names that number,
and is refused once the run has been lost or claimed again.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from db import stream
from db.models import Run, utc_now

MOVES: dict[str, tuple[str, ...]] = {
    "queued": ("starting", "stopped", "paused"),
    "starting": ("running", "stopping", "stopped", "paused", "queued", "failed", "lost"),
    "running": ("stopping", "stopped", "paused", "queued", "done", "failed", "lost"),
    "stopping": ("stopped", "paused", "queued", "done", "failed", "lost"),
    "paused": ("queued", "stopped"),
    "stopped": ("queued",),
    "failed": ("queued",),
    "lost": ("queued",),
    "done": (),
}
HELD = ("starting", "running", "stopping")  # a supervisor holds the run
ENDED = ("stopped", "failed", "lost", "done")
RESUMABLE = ("paused", "stopped", "failed", "lost")


def create(session: Session, *, name: str, config: dict[str, Any], preset: str | None, owner: str = "local") -> Run:
    """A queued run with a new id. total_steps is config["steps"] when it is there."""
    run = Run(
        id=new_id(),
        name=name,
        config=config,
        preset=preset,
        owner=owner,
        state_by=owner,
        total_steps=int(config.get("steps", 0)),
    )
    session.add(run)
    session.flush()
    stream.publish(session, run.id, "state", {"state": "queued", "why": "", "who": owner})
    return run


def get(session: Session, run_id: str) -> Run:
    """LookupError when there is none."""
    run = session.get(Run, run_id, populate_existing=True)
    if run is None:
        raise LookupError(f"run {run_id}: there is none of this id")
    return run


def listing(
    session: Session, *, limit: int = 50, before: str | None = None, states: Collection[str] = (), search: str = ""
) -> list[Run]:
    """Newest first. before: the last id of the page above; search: part of the name, preset or id, in any case."""
    query = select(Run).order_by(Run.id.desc()).limit(limit)
    if before:
        query = query.where(Run.id < before)
    if states:
        query = query.where(Run.state.in_(states))
    if search:
        query = query.where(
            or_(*(column.icontains(search, autoescape=True) for column in (Run.name, Run.preset, Run.id)))
        )
    return list(session.scalars(query))


def claim(session: Session, run_id: str, owner: str, lease_seconds: float) -> int | None:
    """Takes a queued run: its attempt number, or None when it is not there to take. owner names the worker."""
    now = utc_now()
    attempt = session.scalar(
        update(Run)
        .where(Run.id == run_id, Run.state == "queued")
        .values(
            **_into("starting", owner, "", now),
            attempt=Run.attempt + 1,
            worker=owner,
            lease_until=now + timedelta(seconds=lease_seconds),
            stop_requested_at=None,
            stop_into="stopped",
            started_at=now,
            ended_at=None,
        )
        .returning(Run.attempt)
    )
    if attempt is not None:
        stream.publish(session, run_id, "state", {"state": "starting", "why": "", "who": owner})
    return attempt


def renew(session: Session, run_id: str, attempt: int, lease_seconds: float) -> bool:
    """Extends the lease. False: the run is no longer this attempt's, and its process has to go."""
    renewed = session.scalar(
        update(Run)
        .where(Run.id == run_id, Run.attempt == attempt, Run.state.in_(HELD))
        .values(lease_until=utc_now() + timedelta(seconds=lease_seconds))
        .returning(Run.id)
    )
    return renewed is not None


def move(session: Session, run_id: str, to: str, *, who: str, why: str = "", attempt: int | None = None) -> bool:
    """Moves a run if MOVES allows it from where it is and, with `attempt`, if that attempt still holds it."""
    if to not in MOVES:
        raise ValueError(f"state: {to!r} is not one of {', '.join(MOVES)}")
    now = utc_now()
    values = _into(to, who, why, now)
    if to not in HELD:
        values |= {"lease_until": None, "ended_at": now if to in ENDED else None}
    change = update(Run).where(Run.id == run_id, Run.state.in_([state for state, onto in MOVES.items() if to in onto]))
    if attempt is not None:
        change = change.where(Run.attempt == attempt, Run.state.in_(HELD))
    moved = session.scalar(change.values(**values).returning(Run.id)) is not None
    if moved:
        stream.publish(session, run_id, "state", {"state": to, "why": why, "who": who})
    return moved


def request_stop(session: Session, run_id: str, who: str, into: str = "stopped") -> bool:
    """Asks for a stop that leads to `into` ("stopped", "paused", or "queued": to be taken up by another worker).

    A run that nobody holds moves at once; a held one is `stopping` until its process is gone. False when the run
    has ended already.
    """
    if into not in ("stopped", "paused", "queued"):
        raise ValueError(f"into: {into!r} is not stopped, paused or queued")
    run = get(session, run_id)
    if run.state not in HELD:
        return into != "queued" and move(session, run_id, into, who=who)
    session.execute(
        update(Run)
        .where(Run.id == run_id, Run.state.in_(HELD))
        .values(stop_into=into, stop_requested_at=run.stop_requested_at or utc_now())
    )
    if run.state != "stopping":
        move(session, run_id, "stopping", who=who)
    return True


def resume(session: Session, run_id: str, who: str) -> bool:
    """Queues a run that was paused, stopped, failed or lost; it goes on from its last checkpoint."""
    return get(session, run_id).state in RESUMABLE and move(session, run_id, "queued", who=who, why="resumed")


def release(session: Session, worker: str) -> None:
    """Asks for the runs that a worker holds to be given back to the queue, because the worker is leaving."""
    held = select(Run.id).where(Run.worker == worker, Run.state.in_(("starting", "running")))
    for run_id in session.scalars(held).all():
        request_stop(session, run_id, worker, into="queued")


def reap(session: Session, now: datetime) -> list[str]:
    """Declares held runs whose lease ran out, or that never had one, `lost`. Returns their ids."""
    expired = select(Run).where(Run.state.in_(HELD), or_(Run.lease_until.is_(None), Run.lease_until < now))
    lost = []
    for run in session.scalars(expired).all():
        why = (
            f"worker {run.worker} has not been heard of since its lease ended; resume goes on from the last checkpoint"
        )
        if move(session, run.id, "lost", who="reaper", why=why, attempt=run.attempt):
            lost.append(run.id)
    return lost


def waiting(session: Session, since: datetime) -> list[str]:
    """Runs that have been queued since before `since`, oldest first."""
    query = select(Run.id).where(Run.state == "queued", Run.state_since < since)
    return list(session.scalars(query.order_by(Run.state_since)))


def new_id() -> str:
    """A UUID of version 7 (RFC 9562): ids sort by the time they were made, to 1/4096 of a millisecond."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    random_bits = int.from_bytes(os.urandom(8), "big") >> 2
    return str(uuid.UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 0b10 << 62 | random_bits))


def _into(state: str, who: str, why: str, now: datetime) -> dict[str, Any]:
    return {"state": state, "state_since": now, "state_by": who, "state_why": why}
