"""Which workers are alive."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from db.models import Worker, utc_now
from db.upsert import upsert


def beat(session: Session, name: str, pid: int, slots: int, started_at: datetime, processes: int = 1) -> None:
    """Says that a worker is alive. slots: how many runs it takes at a time; processes: the most that each may have."""
    facts = {"name": name, "pid": pid, "slots": slots, "processes": processes, "started_at": started_at}
    upsert(session, Worker, [facts | {"seen_at": utc_now()}])


def leave(session: Session, name: str) -> None:
    session.execute(delete(Worker).where(Worker.name == name))


def most_processes(session: Session, since: datetime) -> int:
    """What the largest worker heard of after `since` takes; 0 when there is none."""
    return session.scalar(select(func.max(Worker.processes)).where(Worker.seen_at > since)) or 0


def alive(session: Session, since: datetime) -> list[Worker]:
    """Workers heard of after `since`, by name."""
    return list(session.scalars(select(Worker).where(Worker.seen_at > since).order_by(Worker.name)))
