"""The real worker on a real broker, with the tiny trainer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from db import metrics, runs, stream, workers
from db.models import utc_now
from db.session import engine, migrate, reading
from tests.db.databases import postgres_database
from tests.workers.conftest import PROJECT, processes_in, queued, row, until_state, wait_until
from workers import broker, queue
from workers.broker import embedded
from workers.local import worker_process

COMMAND = (sys.executable, "-m", "tests.workers.worker")
LONG = 10_000

SERVE = """
import sys
from db.settings import settings
from workers.broker import embedded
from workers.local import worker_process
with embedded(settings().data) as url, worker_process(url, sys.argv[1:]):
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def working(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    with embedded(data) as url, worker_process(url, COMMAND) as worker:
        yield worker


def sent(behaviour: str = "train", steps: int = 4) -> str:
    run_id = queued(behaviour, steps)
    assert queue.send(run_id)
    return run_id


def alive() -> list[str]:
    with reading() as session:
        return [worker.name for worker in workers.alive(session, utc_now() - timedelta(seconds=60))]


def test_runs_are_trained_stopped_and_taken_once(data: Path) -> None:
    with working(data) as worker:
        first, second, long = sent(), sent("fail"), sent(steps=LONG)
        assert queue.send(first)  # a message that comes twice
        assert until_state(first, "done").attempt == 1
        assert until_state(second, "failed").state_why == "loss is not finite (step 2)"
        until_state(long, "running")
        assert len(alive()) == 1
        assert queue.num_waiting() in (0, 1)
        queue.stop(long, "ada")
        assert until_state(long, "stopped").state_by.startswith("worker@")
        last = sent()
        until_state(last, "done")
        assert row(first).attempt == 1
    assert worker.returncode == 0
    assert alive() == []
    with reading() as session:
        assert metrics.curves(session, first).steps == [0, 1, 2, 3]


def test_leaving_worker_gives_its_run_back_and_the_next_takes_it_up(data: Path) -> None:
    with working(data):
        run_id = sent(steps=LONG)
        wait_until(lambda: row(run_id).step > 2)
    run = row(run_id)
    assert (run.state, run.attempt) == ("queued", 1)
    assert list((data / "runs" / run_id).glob("checkpoint-*"))
    assert processes_in(data) == []
    with working(data):
        wait_until(lambda: row(run_id).state == "running" and row(run_id).attempt == 2)
        queue.stop(run_id, "ada")
        until_state(run_id, "stopped")


def test_killed_worker_leaves_no_process_and_its_run_is_lost(data: Path) -> None:
    with working(data) as worker:
        run_id = sent(steps=LONG)
        until_state(run_id, "running")
        family = psutil.Process(worker.pid).children(recursive=True)
        assert any("child.py" in " ".join(process.cmdline()) for process in family)
        worker.kill()
        worker.wait()
        wait_until(lambda: not any(process.is_running() for process in family))
    assert row(run_id).state in runs.HELD  # until the lease ends and a sweep sees it


def test_killed_server_takes_worker_trainer_and_broker_with_it(data: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, *COMMAND], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    assert server.stdin is not None
    assert server.stdout.readline() == b"ready\n"
    wait_until(alive)
    run_id = sent(steps=LONG)
    until_state(run_id, "running")
    server.kill()
    server.wait()
    server.stdin.close()
    server.stdout.close()
    wait_until(lambda: processes_in(data) == [], lambda: str(processes_in(data)))
    assert row(run_id).state == "queued"


def test_worker_with_postgres(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_database() as url:
        monkeypatch.setenv("DATABASE_URL", url)
        migrate()
        with working(data):
            run_id, long = sent("parent", steps=30), sent(steps=LONG)
            until_state(run_id, "done")
            until_state(long, "running")
            queue.stop(long, "ada")
            until_state(long, "stopped")
        with reading() as session:
            assert metrics.curves(session, run_id).steps == list(range(30))
            states = [notice.data["state"] for notice in stream.after(session, 0, long) if notice.kind == "state"]
        assert states == ["queued", "starting", "running", "stopping", "stopped"]
        engine().dispose()
        monkeypatch.delenv("DATABASE_URL")


def test_worker_without_any_server(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "server_binary", lambda: None)
    with working(data):
        run_id = sent()
        until_state(run_id, "done")
