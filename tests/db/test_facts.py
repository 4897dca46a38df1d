"""Samples, artifacts, evaluations, checkpoints, workers, and the stream of notices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from db import artifacts, checkpoints, evaluations, runs, samples, stream, workers
from db.models import Run, utc_now
from db.session import reading, writing


def artifact(letter: str) -> dict[str, Any]:
    path = f"runs/r/media/{letter * 2}/{letter * 64}.png"
    return {
        "sha256": letter * 64,
        "mime": "image/png",
        "width": 8,
        "height": 8,
        "bytes": 90,
        "path": path,
        "poster": None,
    }


def sample(prompt_index: int, letter: str, score: float | None = 1.0) -> dict[str, Any]:
    return {
        "prompt_index": prompt_index,
        "prompt": f"prompt {prompt_index}",
        "task": "count",
        "seed": 2**40 + prompt_index,
        "sha256": letter * 64,
        "scores": {"shapes": score},
    }


def test_samples_of_a_step_come_in_prompt_order_and_overwrite(run: Run) -> None:
    with writing() as session:
        artifacts.put(session, [artifact("a"), artifact("b"), artifact("a")])
        samples.put(session, run.id, "fixed", 10, [sample(1, "a"), sample(0, "b")])
        samples.put(session, run.id, "fixed", 10, [sample(1, "b", None)])
        samples.put(session, run.id, "fixed", 0, [sample(0, "a")])
        samples.put(session, run.id, "test", 5, [])
    with reading() as session:
        found = samples.at(session, run.id, "fixed", 10)
        assert [(row.prompt_index, row.sha256[0], row.scores["shapes"]) for row in found] == [
            (0, "b", 1.0),
            (1, "b", None),
        ]
        assert found[1].seed == 2**40 + 1
        assert samples.steps(session, run.id, "fixed") == [0, 10]
        assert samples.steps(session, run.id, "test") == []


def test_sample_needs_its_artifact(run: Run) -> None:
    with pytest.raises(IntegrityError), writing() as session:
        samples.put(session, run.id, "fixed", 0, [sample(0, "c")])


def test_artifact_by_hash(database: None) -> None:
    with writing() as session:
        artifacts.put(session, [artifact("d")])
    with reading() as session:
        assert artifacts.get(session, "d" * 64).path.startswith("runs/r/media/dd/")
        with pytest.raises(LookupError, match="none of this hash"):
            artifacts.get(session, "e" * 64)


def test_evaluations_and_checkpoints_by_step(run: Run) -> None:
    with writing() as session:
        for step in (20, 0):
            evaluations.put(session, run.id, step, {"num_prompts": step}, 1_000_000.0)
            checkpoints.put(session, run.id, step, f"checkpoint-{step}", 2**33, 1_000_000.0)
        evaluations.put(session, run.id, 20, {"num_prompts": 21}, 1_000_000.0)
    with reading() as session:
        assert [(row.step, row.report["num_prompts"]) for row in evaluations.listing(session, run.id)] == [
            (0, 0),
            (20, 21),
        ]
        found = checkpoints.listing(session, run.id)
    assert [(row.path, row.bytes) for row in found] == [("checkpoint-0", 2**33), ("checkpoint-20", 2**33)]
    assert found[0].created_at.timestamp() == 1_000_000.0


def test_stream_is_read_by_cursor_and_pruned(run: Run) -> None:
    with writing() as session:
        other = runs.create(session, name="other", config={}, preset=None)
        for step in range(3):
            stream.publish(session, run.id, "step", {"step": step})
    with reading() as session:
        mine = stream.after(session, 0, run.id)
        assert [notice.kind for notice in mine] == ["state", "step", "step", "step"]
        assert [notice.data["step"] for notice in stream.after(session, mine[1].id, run.id)] == [1, 2]
        assert len(stream.after(session, 0)) == 5
        assert len(stream.after(session, 0, limit=2)) == 2
        assert stream.after(session, 0, other.id)[0].run_id == other.id
        last = stream.last_id(session)
    assert last == mine[-1].id
    with writing() as session:
        stream.prune(session, utc_now() - timedelta(hours=1))
        assert stream.last_id(session) == last
        stream.prune(session, utc_now() + timedelta(seconds=1))
        assert stream.last_id(session) == 0
        stream.publish(session, run.id, "step", {"step": 3})
        assert stream.last_id(session) == last + 1  # ids are never used twice


def test_workers_are_alive_while_they_beat(database: None) -> None:
    with writing() as session:
        for name in ("b", "a"):
            workers.beat(session, name, 12, 1, utc_now())
        workers.beat(session, "a", 13, 2, utc_now())
    with reading() as session:
        assert [(row.name, row.pid, row.slots) for row in workers.alive(session, utc_now() - timedelta(seconds=9))] == [
            ("a", 13, 2),
            ("b", 12, 1),
        ]
        assert workers.alive(session, utc_now() + timedelta(seconds=9)) == []
    with writing() as session:
        workers.leave(session, "a")
        assert [row.name for row in workers.alive(session, utc_now() - timedelta(seconds=9))] == ["b"]
