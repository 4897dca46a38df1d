from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from db import runs
from db.models import Run
from db.session import engine, migrate, reading, writing
from tests.db.databases import use
from tests.workers.child import child_command
from workers.supervise import Pace, supervise

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder with a migrated database; afterwards nothing that works in it may be alive."""
    use(monkeypatch, tmp_path)
    migrate()
    yield tmp_path
    with writing() as session:  # a test that failed half-way takes its runs from their supervisors
        for run in runs.listing(session, states=runs.HELD):
            runs.move(session, run.id, "lost", who="test")
    for thread in threading.enumerate():
        if isinstance(thread, Supervising):
            thread.join()
    engine().dispose()
    wait_until(lambda: not processes_in(tmp_path), lambda: f"still alive: {processes_in(tmp_path)}")


class Supervising(threading.Thread):
    """A supervisor in this process."""

    def __init__(self, run_id: str, pace: Pace) -> None:
        super().__init__(target=supervise, args=(run_id, "w1", child_command, pace), daemon=True)
        self.start()


def wait_until(condition: Callable[[], Any], says: Callable[[], str] = lambda: "", seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, says() or "it did not come true in time"
        time.sleep(0.02)


def processes_in(folder: Path) -> list[psutil.Process]:
    """Processes that name the folder on their command line, work in it, or have it as their ESPALIER_DATA."""
    found = []
    for process in psutil.process_iter():
        try:
            places = [*process.cmdline(), process.cwd(), process.environ().get("ESPALIER_DATA", "")]
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if process.pid != psutil.Process().pid and any(str(folder) in place for place in places):
            found.append(process)
    return found


def queued(behaviour: str = "train", steps: int = 4) -> str:
    with writing() as session:
        config = {"name": behaviour, "behaviour": behaviour, "steps": steps}
        return runs.create(session, name=behaviour, config=config, preset=None).id


def row(run_id: str) -> Run:
    with reading() as session:
        return runs.get(session, run_id)


def until_state(run_id: str, *states: str) -> Run:
    wait_until(lambda: row(run_id).state in states, lambda: f"it is {row(run_id).state}: {row(run_id).state_why}")
    return row(run_id)
