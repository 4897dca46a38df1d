"""Generated items: the same prompts and seeds at each step, so that steps can be set side by side."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Sample
from db.upsert import upsert


def put(session: Session, run_id: str, collection: str, step: int, samples: list[dict[str, Any]]) -> None:
    """Each sample has prompt_index, prompt, task, seed, sha256 (of a stored artifact) and scores."""
    key = {"run_id": run_id, "collection": collection, "step": step}
    upsert(session, Sample, [key | sample for sample in samples])


def at(session: Session, run_id: str, collection: str, step: int) -> list[Sample]:
    """The items of one collection at one step, by prompt and seed."""
    query = select(Sample).filter_by(run_id=run_id, collection=collection, step=step)
    return list(session.scalars(query.order_by(Sample.prompt_index, Sample.seed)))


def steps(session: Session, run_id: str, collection: str) -> list[int]:
    """The steps at which a collection was saved."""
    query = select(Sample.step).filter_by(run_id=run_id, collection=collection).distinct()
    return list(session.scalars(query.order_by(Sample.step)))
