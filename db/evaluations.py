"""Held-out evaluations of a run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Evaluation
from db.upsert import upsert


def put(session: Session, run_id: str, step: int, report: dict[str, Any], time: float) -> None:
    """time: seconds since the epoch."""
    row = {"run_id": run_id, "step": step, "report": report, "created_at": datetime.fromtimestamp(time, UTC)}
    upsert(session, Evaluation, [row])


def listing(session: Session, run_id: str) -> list[Evaluation]:
    """By step; step 0 is the base model."""
    return list(session.scalars(select(Evaluation).filter_by(run_id=run_id).order_by(Evaluation.step)))
