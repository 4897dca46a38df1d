"""Notices for live pages, read with a cursor."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, text
from sqlalchemy.orm import Session

from db.models import StreamRow

ORDER_LOCK = 7_301_149


def publish(session: Session, run_id: str, kind: str, data: dict[str, Any]) -> None:
    """Adds a notice. Writers take turns on PostgreSQL: otherwise a smaller id could commit after a reader passed it."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ORDER_LOCK})
    session.add(StreamRow(run_id=run_id, kind=kind, data=data))
    session.flush()


def after(session: Session, cursor: int, run_id: str | None = None, limit: int = 500) -> list[StreamRow]:
    """Notices with id > cursor, oldest first, of one run or of all."""
    query = select(StreamRow).where(StreamRow.id > cursor).order_by(StreamRow.id).limit(limit)
    return list(session.scalars(query if run_id is None else query.where(StreamRow.run_id == run_id)))


def last_id(session: Session) -> int:
    """The newest notice's id, 0 when there is none."""
    return session.scalar(select(func.max(StreamRow.id))) or 0


def prune(session: Session, before: datetime) -> None:
    """Forgets notices older than `before`; what they told stands in the other tables."""
    session.execute(delete(StreamRow).where(StreamRow.created_at < before))
