from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy.exc import StatementError

from db import runs
from db.columns import clean
from db.models import Run
from db.session import reading, writing


def test_clean_leaves_only_what_every_database_takes() -> None:
    dirty = {"a": float("nan"), "b": [float("inf"), 1.5, ("x\0y",)], "k\0": None, 3: True}
    assert clean(dirty) == {"a": None, "b": [None, 1.5, ["xy"]], "k": None, "3": True}


def test_nan_and_nul_do_not_reach_the_database(database: None) -> None:
    with writing() as session:
        run = runs.create(session, name="a\0b", config={"x": float("nan"), "y": "p\0q"}, preset=None)
    with reading() as session:
        stored = runs.get(session, run.id)
    assert (stored.name, stored.config) == ("ab", {"x": None, "y": "pq"})


def test_times_come_back_aware_and_in_utc(run: Run) -> None:
    noon_in_delhi = datetime(2026, 11, 30, 12, 0, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    with writing() as session:
        runs.get(session, run.id).heartbeat_at = noon_in_delhi
    with reading() as session:
        stored = runs.get(session, run.id).heartbeat_at
    assert stored == datetime(2026, 11, 30, 6, 30, tzinfo=UTC)
    assert stored.tzinfo is UTC


def test_naive_time_is_refused(run: Run) -> None:
    with pytest.raises(StatementError, match="no zone"), writing() as session:
        runs.get(session, run.id).heartbeat_at = datetime(2026, 11, 30)
