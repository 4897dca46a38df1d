from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel
from sqlalchemy import update

from db import runs, stream, workers
from db.models import Run, utc_now
from db.session import reading, writing
from tests.workers.conftest import queued, row
from workers import broker, queue, sweep
from workers.broker import embedded
from workers.queue import launch, num_waiting, send


class Tiny(BaseModel):
    name: str = "tiny"
    steps: int = 3
    behaviour: str = "train"
    processes: int = 1


@pytest.fixture
def files(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that needs no server."""
    monkeypatch.setattr(broker, "server_binary", lambda: None)


def age(run_id: str, seconds: float) -> None:
    with writing() as session:
        since = utc_now() - timedelta(seconds=seconds)
        session.execute(update(Run).where(Run.id == run_id).values(state_since=since))


def test_launch_queues_a_row_and_sends_its_id(files: None) -> None:
    run_id = launch(Tiny(), "shapes-branchgrpo", "ada")  # type: ignore[arg-type]
    run = row(run_id)
    assert (run.state, run.name, run.total_steps) == ("queued", "tiny", 3)
    assert (run.preset, run.owner) == ("shapes-branchgrpo", "ada")
    assert run.config == {"name": "tiny", "steps": 3, "behaviour": "train", "processes": 1}
    assert num_waiting() == 1


def test_broker_that_is_down_leaves_the_row_queued_and_a_sweep_sends_it(data: Path) -> None:
    run_id = launch(Tiny(), None, "ada")  # type: ignore[arg-type]
    assert row(run_id).state == "queued"
    assert num_waiting() is None
    age(run_id, 60)
    assert sweep.sweep() == []
    with embedded(data):
        assert num_waiting() == 0
        assert sweep.sweep() == [run_id]
        assert num_waiting() == 1
        assert sweep.sweep() == []  # its message waits; another would be one too many


def test_sweep_leaves_fresh_runs_to_their_first_message(files: None) -> None:
    queued()
    assert sweep.sweep() == []


def test_sweep_finds_lost_runs_and_forgets_old_notices(files: None) -> None:
    run_id = queued()
    with writing() as session:
        runs.claim(session, run_id, "w1", -1)
    sweep.sweep()
    assert row(run_id).state == "lost"
    with writing() as session:
        session.execute(update(stream.StreamRow).values(created_at=utc_now() - timedelta(days=2)))
    sweep.sweep()
    with reading() as session:
        assert stream.after(session, 0) == []


def test_a_run_that_no_worker_can_take_says_so_until_one_comes(files: None) -> None:
    run_id = launch(Tiny(processes=4), None, "ada")  # type: ignore[arg-type]
    small = launch(Tiny(), None, "ada")  # type: ignore[arg-type]
    with writing() as session:
        workers.beat(session, "w1", 1, 1, utc_now(), processes=2)
    sweep.sweep()
    assert row(run_id).state == "queued"
    none_is_large_enough = (
        "waits for a worker that takes 4 processes; the largest that is alive takes runs of at most 2"
    )
    assert row(run_id).state_why == none_is_large_enough
    assert row(small).state_why == ""
    with writing() as session:
        workers.beat(session, "w2", 2, 1, utc_now(), processes=4)
    sweep.sweep()
    busy = "waits for a worker that takes 4 processes to be free; one is alive"
    assert row(run_id).state_why == busy
    assert row(small).state_why == ""
    with writing() as session:
        runs.claim(session, run_id, "w2", 60)
    assert row(run_id).state_why == ""
    with reading() as session:
        told = [one.data["why"] for one in stream.after(session, 0, run_id)]
    assert told == ["", none_is_large_enough, busy, ""]


def test_a_run_that_no_worker_can_take_is_not_sent_again(data: Path) -> None:
    run_id = launch(Tiny(processes=4), None, "ada")  # type: ignore[arg-type]
    age(run_id, 60)
    with embedded(data):
        for processes, sent in ((2, []), (4, [run_id])):
            with writing() as session:
                workers.beat(session, "w1", 1, 1, utc_now(), processes=processes)
            assert sweep.sweep() == sent


def test_stop_before_a_worker_takes_it_and_resume_sends_again(files: None) -> None:
    run_id = queued()
    assert queue.stop(run_id, "ada")
    assert row(run_id).state == "stopped"
    assert not queue.pause(run_id, "ada")
    assert queue.resume(run_id, "ada")
    assert (row(run_id).state, num_waiting()) == ("queued", 1)
    assert not queue.resume(run_id, "ada")
    assert num_waiting() == 1


@pytest.mark.parametrize("url", [None, "redis://127.0.0.1:1/0"])
def test_send_does_not_hold_up_a_page(data: Path, monkeypatch: pytest.MonkeyPatch, url: str | None) -> None:
    if url:
        monkeypatch.setenv("CELERY_BROKER_URL", url)
    before = time.monotonic()
    assert not send("any")
    assert num_waiting() is None
    assert time.monotonic() - before < 2


def test_send_needs_no_worker(files: None) -> None:
    assert send("any")
    assert num_waiting() == 1


def test_a_base_that_the_machine_cannot_have_is_not_queued(files: None, capsys: pytest.CaptureFixture[str]) -> None:
    with reading() as session:
        before = len(runs.listing(session))
    assert queue.main(["shapes-branchgrpo", "--set", "model.base=/models/absent"]) == 2
    assert "espalier launch: model.base: '/models/absent' is neither a folder" in capsys.readouterr().err
    with reading() as session:
        assert len(runs.listing(session)) == before
