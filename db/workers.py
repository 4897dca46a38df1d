"""Which workers are alive."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from db.models import Worker, utc_now
from db.upsert import upsert


def beat(session: Session, name: str, pid: int, slots: int, started_at: datetime) -> None:
    """Says that a worker is alive. slots: how many runs it takes at a time."""
    upsert(
        session,
        Worker,
        [{"name": name, "pid": pid, "slots": slots, "started_at": started_at, "seen_at": utc_now()}],
    )


def leave(session: Session, name: str) -> None:
    session.execute(delete(Worker).where(Worker.name == name))


def alive(session: Session, since: datetime) -> list[Worker]:
    """Workers heard of after `since`, by name."""
    return list(session.scalars(select(Worker).where(Worker.seen_at > since).order_by(Worker.name)))
