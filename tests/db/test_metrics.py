from __future__ import annotations

from db import metrics, runs
from db.models import Run
from db.session import reading, writing


def fill(run_id: str, num_steps: int) -> None:
    with writing() as session:
        for step in range(num_steps):
            metrics.append(session, run_id, step, {"a": float(step), "b": 1.0 if step % 4 == 0 else None}, 100.0 + step)


def test_curves_hold_what_was_appended(run: Run) -> None:
    fill(run.id, 3)
    with writing() as session:
        metrics.append(session, run.id, 1, {"a": float("nan"), "late": 7.0}, 500.0)  # a step done again overwrites
    with reading() as session:
        found = metrics.curves(session, run.id)
        newer = metrics.curves(session, run.id, after_step=1)
    assert found.steps == [0, 1, 2]
    assert found.times == [100.0, 500.0, 102.0]
    assert found.values == {"a": [0.0, None, 2.0], "b": [1.0, None, None], "late": [None, 7.0, None]}
    assert (newer.steps, newer.values) == ([2], {"a": [2.0], "b": [None]})


def test_curves_past_max_points_are_means_of_neighbours(run: Run) -> None:
    fill(run.id, 10)
    with reading() as session:
        found = metrics.curves(session, run.id, max_points=3)  # ceil(10 / 3) = 4 steps a point
    assert found.steps == [3, 7, 9]
    assert found.values == {"a": [1.5, 5.5, 8.5], "b": [1.0, 1.0, 1.0]}


def test_curves_of_a_new_run_are_empty(run: Run) -> None:
    with reading() as session:
        assert metrics.curves(session, run.id) == metrics.Curves([], [], {})


def test_sparkline_ends_at_the_newest_value(run: Run) -> None:
    fill(run.id, 100)
    with writing() as session:
        other = runs.create(session, name="empty", config={}, preset=None)
    with reading() as session:
        lines = metrics.sparkline(session, [run.id, other.id], "a", points=4)
    assert lines == {run.id: [24.0, 49.0, 74.0, 99.0], other.id: []}  # every 99 // 4 + 1 = 25th, back from 99
