from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from db import checkpoints, metrics, runs, stream
from db import session as session_module
from db.models import utc_now
from db.session import engine, reading, writing
from tests.workers.child import child_command
from tests.workers.conftest import PROJECT, Supervising, processes_in, queued, row, until_state, wait_until
from workers.queue import pause, resume, stop
from workers.supervise import Pace, supervise
from workers.trainer import trainer_command

PACE = Pace(poll=0.02, lease=5.0, renew=0.1, stop=20.0, kill=20.0)
LONG = 10_000


def trainers(data: Path) -> list[psutil.Process]:
    return [process for process in processes_in(data) if "child.py" in " ".join(process.cmdline())]


def steps_in(run_id: str) -> list[int]:
    with reading() as session:
        return metrics.curves(session, run_id).steps


def states_of(run_id: str) -> list[str]:
    with reading() as session:
        return [notice.data["state"] for notice in stream.after(session, 0, run_id) if notice.kind == "state"]


def test_run_to_its_end(data: Path) -> None:
    run_id = queued(steps=4)
    supervise(run_id, "w1", child_command, PACE)
    run = row(run_id)
    assert states_of(run_id) == ["queued", "starting", "running", "done"]
    assert (run.state, run.state_by, run.worker, run.attempt, run.step) == ("done", "w1", "w1", 1, 3)
    assert (run.last_reward, run.lease_until, run.log_tail) == (0.3, None, "loading\nweights\n")
    assert steps_in(run_id) == [0, 1, 2, 3]
    folder = data / "runs" / run_id
    assert yaml.safe_load((folder / "config.yaml").read_text()) == run.config
    assert not (folder / "trainer.json").exists()


def test_message_that_comes_twice_starts_nothing(data: Path) -> None:
    run_id = queued(steps=LONG)
    first = Supervising(run_id, PACE)
    until_state(run_id, "running")
    supervise(run_id, "w2", child_command, PACE)  # returns at once
    assert (row(run_id).worker, row(run_id).attempt, len(trainers(data))) == ("w1", 1, 1)
    stop(run_id, "ada")
    first.join()
    supervise(run_id, "w2", child_command, PACE)
    assert row(run_id).attempt == 1


def test_stop_saves_and_resume_goes_on_from_there(data: Path) -> None:
    run_id = queued(steps=12)
    first = Supervising(run_id, PACE)
    wait_until(lambda: len(steps_in(run_id)) >= 3)
    assert stop(run_id, "ada")
    assert row(run_id).state in ("stopping", "stopped")
    first.join()
    assert (row(run_id).state, row(run_id).state_by) == ("stopped", "w1")
    with reading() as session:
        saved = checkpoints.listing(session, run_id)[-1].step
    assert resume(run_id, "ada")
    supervise(run_id, "w2", child_command, PACE)
    assert (row(run_id).state, row(run_id).attempt) == ("done", 2)
    assert steps_in(run_id) == list(range(12))
    assert states_of(run_id)[-4:] == ["queued", "starting", "running", "done"]
    assert 3 <= saved < 12


def test_pause_leads_to_paused(data: Path) -> None:
    run_id = queued(steps=LONG)
    supervising = Supervising(run_id, PACE)
    until_state(run_id, "running")
    assert pause(run_id, "ada")
    supervising.join()
    assert row(run_id).state == "paused"
    assert stop(run_id, "ada")
    assert row(run_id).state == "stopped"


def test_stop_before_the_trainer_speaks(data: Path) -> None:
    run_id = queued(steps=LONG)
    supervising = Supervising(run_id, PACE)
    until_state(run_id, "starting")
    stop(run_id, "ada")
    supervising.join()
    assert row(run_id).state == "stopped"
    assert "running" not in states_of(run_id)


def test_deaf_trainer_is_killed_after_its_grace(data: Path) -> None:
    run_id = queued("deaf", steps=LONG)
    supervising = Supervising(run_id, Pace(poll=0.02, stop=0.2, kill=0.2))
    until_state(run_id, "running")
    stop(run_id, "ada")
    assert row(run_id).state == "stopping"
    supervising.join()
    assert row(run_id).state == "stopped"
    assert "was killed" in row(run_id).state_why
    assert trainers(data) == []


def test_failure_says_what_and_where(data: Path) -> None:
    run_id = queued("fail", steps=5)
    supervise(run_id, "w1", child_command, PACE)
    assert (row(run_id).state, row(run_id).state_why) == ("failed", "loss is not finite (step 2)")


def test_crash_shows_the_last_lines(data: Path) -> None:
    run_id = queued("crash")
    supervise(run_id, "w1", child_command, PACE)
    why = "the trainer left with exit code 1 without a last word\nloading\nweights\nno such base model"
    assert (row(run_id).state, row(run_id).state_why) == ("failed", why)


def test_killed_trainer_is_a_failure_with_its_log(data: Path) -> None:
    run_id = queued(steps=LONG)
    supervising = Supervising(run_id, PACE)
    until_state(run_id, "running")
    trainers(data)[0].kill()
    supervising.join()
    assert row(run_id).state == "failed"
    assert row(run_id).state_why.startswith("the trainer was killed by SIGKILL")
    assert row(run_id).state_why.endswith("loading\nweights")


def test_what_a_trainer_started_goes_with_it(data: Path) -> None:
    run_id = queued("parent", steps=10)
    supervise(run_id, "w1", child_command, PACE)
    assert row(run_id).state == "done"
    assert processes_in(data) == []


def test_trainer_that_cannot_be_started(data: Path) -> None:
    run_id = queued()
    with pytest.raises(FileNotFoundError):
        supervise(run_id, "w1", lambda folder: [str(folder / "nothing")], PACE)
    assert row(run_id).state == "failed"
    assert "the supervisor failed: FileNotFoundError" in row(run_id).state_why


def test_trainer_sees_neither_database_nor_broker(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{data}/espalier.db")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://user:secret@nowhere")
    run_id = queued()
    secrets = "{'DATABASE_URL', 'CELERY_BROKER_URL'}"
    code = f"import os; print(sorted({secrets} & set(os.environ)), os.environ['CUDA_VISIBLE_DEVICES'])"
    supervise(run_id, "w1", lambda _: [sys.executable, "-c", code], PACE, devices="3")
    assert row(run_id).log_tail == "[] 3\n"


def test_run_taken_away_ends_its_trainer(data: Path) -> None:
    run_id = queued(steps=LONG)
    supervising = Supervising(run_id, PACE)
    until_state(run_id, "running")
    with writing() as session:
        runs.move(session, run_id, "lost", who="reaper")
    supervising.join()
    assert row(run_id).state == "lost"
    assert trainers(data) == []


def test_lease_is_renewed_while_the_trainer_is_silent(data: Path) -> None:
    run_id = queued(steps=LONG)
    supervising = Supervising(run_id, Pace(poll=0.02, lease=0.6, renew=0.1))
    first = until_state(run_id, "running").lease_until
    assert first is not None
    wait_until(lambda: utc_now() > first)
    with writing() as session:
        assert runs.reap(session, utc_now()) == []
    stop(run_id, "ada")
    supervising.join()
    assert row(run_id).state == "stopped"


def test_killed_supervisor_loses_the_run_and_another_takes_it_up(data: Path) -> None:
    run_id = queued(steps=25)
    supervisor = subprocess.Popen([sys.executable, "-m", "tests.workers.supervisor", run_id], cwd=PROJECT)
    wait_until(lambda: len(steps_in(run_id)) >= 3)
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.wait()
    wait_until(lambda: trainers(data) == [])  # its stdin closed: it saved and left
    assert list((data / "runs" / run_id).glob("checkpoint-*"))
    wait_until(lambda: utc_now() > (row(run_id).lease_until or utc_now()))
    with writing() as session:
        assert runs.reap(session, utc_now()) == [run_id]
    assert row(run_id).state == "lost"
    assert resume(run_id, "ada")
    supervise(run_id, "w2", child_command, PACE)
    assert (row(run_id).state, row(run_id).attempt) == ("done", 2)
    assert steps_in(run_id) == list(range(25))


def test_trainer_left_over_from_an_earlier_attempt_is_ended_first(data: Path) -> None:
    run_id = queued("deaf", steps=LONG)
    supervisor = subprocess.Popen([sys.executable, "-m", "tests.workers.supervisor", run_id], cwd=PROJECT)
    until_state(run_id, "running")
    supervisor.kill()
    supervisor.wait()
    left_over = trainers(data)[0]
    with writing() as session:
        runs.move(session, run_id, "lost", who="reaper")
        runs.resume(session, run_id, "ada")
    second = Supervising(run_id, Pace(poll=0.02, stop=0.1, kill=0.1))
    until_state(run_id, "running")
    assert not left_over.is_running() or left_over.status() == psutil.STATUS_ZOMBIE
    assert len(trainers(data)) == 1
    stop(run_id, "ada")
    second.join()


def test_trainer_of_the_product_resumes_where_the_folder_has_events(tmp_path: Path) -> None:
    plain = trainer_command(tmp_path)
    assert plain[1:] == ["-m", "app", "train", f"{tmp_path}/config.yaml", "--out", str(tmp_path), "--watch-stdin"]
    (tmp_path / "events.jsonl").touch()
    assert trainer_command(tmp_path) == [*plain, "--resume"]


def test_database_that_is_locked_for_a_while_loses_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "BUSY_MILLISECONDS", 20)
    engine().dispose()
    run_id = queued(steps=8)
    supervising = Supervising(run_id, PACE)
    until_state(run_id, "running")
    with writing() as session:  # longer than the supervisor waits for the lock, and past the trainer's end
        runs.get(session, run_id)
        wait_until(lambda: trainers(data) == [])
        supervising.join(0.5)
        assert supervising.is_alive()
    supervising.join()
    assert row(run_id).state == "done"
    assert steps_in(run_id) == list(range(8))


def test_supervisor_and_worker_stay_light() -> None:
    heavy = "{'torch', 'gradio', 'diffusers'}"
    code = f"import sys, workers.app, workers.tasks, workers.local; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_torn_last_line_does_not_spoil_the_next_attempt(data: Path) -> None:
    run_id = queued(steps=4)
    folder = data / "runs" / run_id
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(b'{"kind":"step_done","st')
    supervise(run_id, "w1", child_command, PACE)
    assert (row(run_id).state, steps_in(run_id)) == ("done", [0, 1, 2, 3])
