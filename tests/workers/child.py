"""A trainer that trains nothing, and keeps the trainer's contract: events, checkpoints, stdin, signals, exit codes.

Its config names its behaviour: train, crash (before it says a word), fail, deaf (to everything but SIGKILL),
parent (of a process that outlives it).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import yaml

from backend.events import CheckpointSaved, EventLog, Progress, RunEnded, RunStarted, StepDone

STEP_SECONDS = 0.05


def child_command(folder: Path) -> list[str]:
    return [sys.executable, __file__, str(folder)]


def main(folder: Path) -> int:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    behaviour, steps = config["behaviour"], config["steps"]
    print("loading\nweights", flush=True)
    if behaviour == "crash":
        raise SystemExit("no such base model")
    if behaviour == "parent":
        subprocess.Popen(["sleep", "600", str(folder)], start_new_session=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: None if behaviour == "deaf" else stop.set())
    threading.Thread(target=watch_stdin, args=(stop, behaviour), daemon=True).start()
    emit = EventLog(folder / "events.jsonl")
    start = max((int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoint-*")), default=0)
    emit(
        RunStarted(
            start_step=start,
            total_steps=steps,
            facts={"device": "cpu"},
            trained_parameters=1,
            total_parameters=2,
            forwards_per_prompt=203,
        )
    )
    for step in range(start, steps):
        if stop.wait(STEP_SECONDS):
            (folder / f"checkpoint-{step}").mkdir(exist_ok=True)
            emit(CheckpointSaved(step=step, path=f"checkpoint-{step}", bytes=3))
            emit(RunEnded(step=step, outcome="stopped"))
            return 0
        if behaviour == "fail" and step == 2:
            emit(RunEnded(step=step, outcome="failed", what="loss is not finite", where="step 2"))
            return 1
        emit(Progress(step=step, phase="rollout", done=1, total=2))
        emit(StepDone(step=step, metrics={"train/reward_mean": step / 10, "time/step": STEP_SECONDS}))
    emit(RunEnded(step=steps, outcome="done"))
    return 0


def watch_stdin(stop: threading.Event, behaviour: str) -> None:
    for line in sys.stdin:
        if line.strip() == "stop":
            break
    if behaviour != "deaf":
        stop.set()


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
