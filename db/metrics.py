"""Metrics by step: append, read as curves, read as sparklines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.models import StepMetrics
from db.upsert import upsert


@dataclass(frozen=True)
class Curves:
    """steps and times (seconds since the epoch) are as long as each list in values; None where there is no number."""

    steps: list[int]
    times: list[float]
    values: dict[str, list[float | None]]


def append(session: Session, run_id: str, step: int, metrics: dict[str, float | None], time: float) -> None:
    """Stores one step's metrics; a step done again overwrites. time: seconds since the epoch."""
    row = {"run_id": run_id, "step": step, "metrics": metrics, "time": datetime.fromtimestamp(time, UTC)}
    upsert(session, StepMetrics, [row])


def curves(session: Session, run_id: str, after_step: int = -1, max_points: int = 1500) -> Curves:
    """All metrics of the steps > after_step. Past max_points, neighbouring steps share a point: the mean of the numbers
    they have, at their last step."""
    query = select(StepMetrics.step, StepMetrics.time, StepMetrics.metrics)
    rows = session.execute(
        query.where(StepMetrics.run_id == run_id, StepMetrics.step > after_step).order_by(StepMetrics.step)
    ).all()
    names = sorted({name for _, _, metrics in rows for name in metrics})
    stride = -(-len(rows) // max_points) or 1
    groups = [rows[start : start + stride] for start in range(0, len(rows), stride)]
    return Curves(
        steps=[group[-1].step for group in groups],
        times=[group[-1].time.timestamp() for group in groups],
        values={name: [_mean([row.metrics.get(name) for row in group]) for group in groups] for name in names},
    )


def sparkline(session: Session, run_ids: Sequence[str], name: str, points: int = 40) -> dict[str, list[float]]:
    """About `points` values of one metric for each run, evenly spaced in steps; a run without any has an empty list."""
    last = (
        select(StepMetrics.run_id, func.max(StepMetrics.step).label("step"))
        .where(StepMetrics.run_id.in_(run_ids))
        .group_by(StepMetrics.run_id)
        .subquery()
    )
    # counted back from the last step, so that the newest value is always there
    query = (
        select(StepMetrics.run_id, StepMetrics.metrics[name].as_float())
        .join(last, last.c.run_id == StepMetrics.run_id)
        .where((last.c.step - StepMetrics.step) % (last.c.step // points + 1) == 0)
        .order_by(StepMetrics.run_id, StepMetrics.step)
    )
    lines: dict[str, list[float]] = {run_id: [] for run_id in run_ids}
    for run_id, value in session.execute(query):
        if value is not None:
            lines[run_id].append(value)
    return lines


def _mean(numbers: list[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None
