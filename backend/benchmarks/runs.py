"""Training runs as child processes, two at a time with one thread each, and what their events tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

from backend import events
from backend.benchmarks.jobs import CPU_CLOCK, Job
from backend.benchmarks.records import Forwards, Point, Trained, thinned, write
from backend.benchmarks.variants import STORED, Profile
from backend.config import dump
from backend.events import EvaluationDone, RunEnded, RunStarted, StepDone

AT_ONCE = 2
SEARCH_POINTS = 2
FAILED = 1  # exit code of a training run that recorded its failure
FORWARDS_A_SECOND = 800  # of the Shapes model on one thread; one with gradient takes about three times as long
EVALUATION_SEEDS = ("--seed", "1", "--seed", "2")


class Stopped(RuntimeError):
    """The benchmark was asked to end."""


@dataclass(frozen=True)
class Spent:
    """What a child process used. memory: its largest resident size in bytes."""

    wall_seconds: float
    cpu_seconds: float
    memory: int


def child(arguments: Sequence[str], log: Path, stopping: Event, accepted: tuple[int, ...] = (0,)) -> Spent:
    """`espalier ARGUMENTS` on one thread, its output in `log`.

    Raises RuntimeError with the log's end for an exit code that is not `accepted`, `Stopped` when `stopping` is set.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    started = perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", *arguments],
            stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
        try:
            while True:
                # wait4 tells what this child alone has used, which getrusage(RUSAGE_CHILDREN) does not
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if stopping.wait(0.2):
                    raise Stopped(f"espalier {arguments[0]} was told to end")
        except BaseException:
            process.terminate()
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdin is not None
        process.stdin.close()
    if process.returncode not in accepted:
        raise RuntimeError(f"espalier {' '.join(arguments)} ended with exit code {process.returncode}:\n{_tail(log)}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Spent(perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


def evaluate_every(forwards: Forwards, seconds: float, points: int) -> int:
    """Training steps between evaluations, so that a run of `seconds` has about `points` of them."""
    step = (forwards.rollout + forwards.evaluated + 3 * forwards.trained) / FORWARDS_A_SECOND
    return max(1, round(seconds / points / step))


def run(job: Job, forwards: Forwards, profile: Profile, stopping: Event) -> Trained:
    """Train, then evaluate the last checkpoint on the whole held-out list. A run that fails is a result too."""
    with tempfile.TemporaryDirectory(prefix="espalier-bench-") as name:
        folder = Path(name)
        config = folder / "config.yaml"
        config.write_text(dump(job.config), encoding="utf-8")
        # a search is judged by its end alone, and evaluations cost it as much time again as training
        every = evaluate_every(forwards, job.seconds, SEARCH_POINTS if job.part == "search" else profile.points)
        settings = ["--set", f"evaluation.every={every}", "--set", f"evaluation.limit={profile.subset}"]
        if job.stored_groups:
            stored = folder / STORED
            collect = ["collect", str(config), "--out", str(stored), "--groups", str(job.stored_groups)]
            child([*collect, "--set", "groups=null"], folder / "collect.log", stopping)
            settings += ["--set", f"groups={stored}"]
        out = folder / "run"
        train = [
            "train",
            str(config),
            "--out",
            str(out),
            "--for",
            f"{job.seconds:g}",
            *CPU_CLOCK,
            "--watch-stdin",
            *settings,
        ]
        spent = child(train, folder / "train.log", stopping, accepted=(0, FAILED))
        seen = events.read(out / "events.jsonl")
        outcome = next((one.outcome for one in reversed(seen) if isinstance(one, RunEnded)), None)
        if outcome is None:
            raise RuntimeError(f"{job.file}: training ended without a word:\n{_tail(folder / 'train.log')}")
        if outcome == "stopped":
            raise Stopped(f"{job.file} was stopped")
        final = _final(out, folder, profile, stopping) if outcome == "done" else None
        return told(job, seen, forwards, spent, final)


def _final(out: Path, folder: Path, profile: Profile, stopping: Event) -> dict[str, Any]:
    limit = 0 if profile.name == "full" else profile.subset
    log = folder / "evaluate.log"
    arguments = ["--checkpoint", str(out), *EVALUATION_SEEDS, "--set", f"evaluation.limit={limit}", "--json"]
    child(["evaluate", *arguments], log, stopping)
    text = log.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text[text.index("{") :])
    return found


def told(
    job: Job, seen: Sequence[events.AnyEvent], forwards: Forwards, spent: Spent, final: dict[str, Any] | None
) -> Trained:
    """A run's record from its events. Its clock is the sum of `time/step`, so evaluations do not count."""
    clock, training, evaluations = 0.0, [], []
    for event in seen:
        if isinstance(event, StepDone):
            clock += event.metrics["time/step"] or 0.0
            training.append((clock, event.metrics["train/reward_mean"] or 0.0))
        elif isinstance(event, EvaluationDone):
            evaluations.append(_point(event, clock))
    ended = next(one for one in reversed(seen) if isinstance(one, RunEnded))
    return Trained(
        fingerprint=job.fingerprint,
        command=job.command,
        facts=next(one.facts for one in seen if isinstance(one, RunStarted)),
        part=job.part,
        variant=job.variant,
        method=job.method,
        seed=job.seed,
        overrides=job.overrides,
        rewards=tuple(one.name for one in job.config.rewards),
        budget=job.seconds,
        outcome="done" if ended.outcome == "done" else "failed",
        what=ended.what,
        steps=len(training),
        seconds=round(clock, 2),
        wall_seconds=round(spent.wall_seconds, 2),
        cpu_seconds=round(spent.cpu_seconds, 2),
        peak_memory_bytes=spent.memory,
        forwards=forwards,
        training=thinned(training),
        evaluations=evaluations,
        final=final,
    )


def _point(event: EvaluationDone, clock: float) -> Point:
    report = event.report
    return Point(
        step=event.step,
        seconds=round(clock, 2),
        strict=report["strict_accuracy"]["overall"]["mean"],
        quality=report["quality"]["mean"],
        reward=sum(one["mean"] for name, one in report["rewards"].items() if name not in report.get("held_out", [])),
    )


def run_all(
    jobs: Sequence[Job], forwards: Sequence[Forwards], profile: Profile, results: Path, say: Callable[[str], None]
) -> None:
    """Run the jobs in their order, `AT_ONCE` at a time; each is stored as soon as it is done.

    Raises RuntimeError in the end when some could not be run; the others are stored all the same.
    """
    stopping, broken = Event(), []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = {pool.submit(run, job, one, profile, stopping): job for job, one in zip(jobs, forwards, strict=True)}
        try:
            for number, future in enumerate(as_completed(waiting), start=1):
                job = waiting[future]
                if (error := future.exception()) is not None:
                    if not isinstance(error, RuntimeError):
                        raise error
                    say(f"[{number}/{len(jobs)}] {job.file}: {error}")
                    broken.append(job.file)
                    continue
                record = future.result()
                write(results / job.file, record)
                strict = "failed" if record.strict is None else f"strict {record.strict:.3f}"
                say(f"[{number}/{len(jobs)}] {job.file}: {record.steps} steps in {record.seconds:.0f} s, {strict}")
        except BaseException:
            stopping.set()
            pool.shutdown(cancel_futures=True)
            raise
    if broken:
        raise RuntimeError(f"{len(broken)} of {len(jobs)} runs could not be made: {', '.join(broken)}")
