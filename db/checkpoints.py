"""Saved checkpoints of a run."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Checkpoint
from db.upsert import upsert


def put(session: Session, run_id: str, step: int, path: str, size: int, time: float) -> None:
    """path: relative to the run's folder; size: bytes on disk; time: seconds since the epoch."""
    row = {"run_id": run_id, "step": step, "path": path, "bytes": size, "created_at": datetime.fromtimestamp(time, UTC)}
    upsert(session, Checkpoint, [row])


def listing(session: Session, run_id: str) -> list[Checkpoint]:
    """By step."""
    return list(session.scalars(select(Checkpoint).filter_by(run_id=run_id).order_by(Checkpoint.step)))
