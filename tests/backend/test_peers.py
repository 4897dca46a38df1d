"""`espalier train` on two processes: stopped by a line, resumed, and a process that is killed under it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from backend import checkpoint, events, peers
from backend.config import RunConfig, dump
from backend.events import RunEnded, RunStarted, StepDone

PROJECT = Path(__file__).resolve().parents[2]
SECONDS = 300.0
pytestmark = pytest.mark.timeout(900)


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "app", "train", str(folder / "c.yaml"), "--out", str(folder / "run"), *more]
    return subprocess.Popen([*command, "--watch-stdin"], cwd=PROJECT, stdin=subprocess.PIPE)


def told(folder: Path) -> list[events.AnyEvent]:
    file = folder / "run" / "events.jsonl"
    return events.read(file) if file.exists() else []


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def folder(small: Callable[..., RunConfig], tmp_path: Path) -> Path:
    config = small("steps=1000", "processes=2", "evaluation.limit=1", "logging.samples_every=1000")
    (tmp_path / "c.yaml").write_text(dump(config))
    return tmp_path


def test_a_stop_saves_a_resume_goes_on_and_a_killed_process_ends_the_run(folder: Path) -> None:
    run = start(folder)
    assert run.stdin is not None
    wait_until(lambda: any(isinstance(one, StepDone) for one in told(folder)))
    family = psutil.Process(run.pid).children()
    assert len(family) == 1
    run.stdin.write(b"stop\n")
    run.stdin.flush()
    assert run.wait(SECONDS) == 0
    ended = told(folder)[-1]
    assert isinstance(ended, RunEnded)
    assert ended.outcome == "stopped"
    newest = checkpoint.latest(folder / "run")
    assert newest is not None
    assert newest.name == f"checkpoint-{ended.step}"
    assert not any(map(psutil.Process.is_running, family))

    before = len(told(folder))
    again = start(folder, "--resume")
    wait_until(lambda: any(isinstance(one, StepDone) for one in told(folder)[before:]))
    started = told(folder)[before]
    assert isinstance(started, RunStarted)
    assert started.start_step == ended.step
    psutil.Process(again.pid).children()[0].kill()
    assert again.wait(SECONDS) == 1
    failed = told(folder)[-1]
    assert isinstance(failed, RunEnded)
    assert failed.outcome == "failed"
    assert failed.what.startswith("process 1 of the run was killed by SIGKILL")
    assert failed.what.endswith(f"the last good checkpoint is {newest.name}")


def test_a_process_that_does_not_come_up_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    lost: list[str] = []
    started = peers.Peers(2, ["/no/such/config.yaml", "--out", "/no/such/folder"], lost.append)
    wait_until(lambda: lost)
    assert lost == ["process 1 of the run left with exit code 2; what it said is in the log"]
    started.close()


def test_followers_leave_when_the_first_process_is_gone() -> None:
    code = "from backend.peers import leave_with_parent; import time; leave_with_parent(); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(SECONDS) == 1
