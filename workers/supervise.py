"""One run under supervision: claim it, start its trainer, tell rows what the trainer writes, stop it when asked.

The supervisor knows only rows, the run's folder and a child process; it never imports torch. The trainer leaves by
itself when its stdin closes, so it does not outlive a supervisor that is killed.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from backend.events import RunEnded
from db import runs
from db.models import Run
from db.session import reading, writing
from db.settings import settings
from workers import process
from workers.ingest import Fenced, ingest
from workers.log_tail import log_tail
from workers.trainer import Trainer, trainer_command

WHY_LINES = 5

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """Seconds. lease: how long a silent supervisor keeps its run; stop: from the line `stop` to SIGTERM; kill: from
    SIGTERM to SIGKILL."""

    poll: float = 0.25
    lease: float = 30.0
    renew: float = 5.0
    stop: float = 120.0
    kill: float = 30.0


@dataclass
class _Watch:
    """What the supervisor of one attempt knows. left: set when the run was found to be no longer this attempt's."""

    run_id: str
    worker: str
    attempt: int
    folder: Path
    pace: Pace
    left: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    ended: RunEnded | None = None
    log: str = ""
    offset: int = 0
    asked_at: float | None = None
    killed: bool = False


def supervise(
    run_id: str,
    worker: str,
    command: Callable[[Path], list[str]] = trainer_command,
    pace: Pace | None = None,
    devices: str | None = None,
) -> None:
    """Runs one attempt to its end; returns at once when the run is not queued, as for a message that came twice.

    devices: CUDA_VISIBLE_DEVICES of the trainer, None to leave it as it is.
    """
    pace = pace or Pace()
    with writing() as session:
        attempt = runs.claim(session, run_id, worker, pace.lease)
    if attempt is None:
        return
    watch = _Watch(run_id, worker, attempt, settings().run_dir(run_id), pace)
    renewing = threading.Thread(target=_renew, args=(watch,), name=f"lease of {run_id}", daemon=True)
    renewing.start()
    try:
        _prepare(watch)
        trainer = Trainer(watch.folder, command, devices)
        try:
            code = _attend(watch, trainer)
        finally:
            trainer.clear()
        _conclude(watch, code)
    except Fenced as error:
        logger.warning("%s; its trainer has been ended", error)
    except Exception as error:
        with writing() as session:
            why = f"the supervisor failed: {type(error).__name__}: {error}"
            runs.move(session, run_id, "failed", who=worker, why=why, attempt=attempt)
        raise
    finally:
        watch.over.set()
        renewing.join()


def _renew(watch: _Watch) -> None:
    while not watch.over.wait(watch.pace.renew):
        try:
            with writing() as session:
                held = runs.renew(session, watch.run_id, watch.attempt, watch.pace.lease)
        except OperationalError as error:  # while the database is away nobody can take the run either
            logger.warning("run %s: lease not renewed: %s", watch.run_id, error.orig)
            continue
        if not held:
            watch.left.set()
            return


def _prepare(watch: _Watch) -> None:
    """A folder that holds the config, no other writer, and nothing that has not been ingested."""
    watch.folder.mkdir(parents=True, exist_ok=True)
    process.end_noted(watch.folder / "trainer.json")
    events = watch.folder / "events.jsonl"
    if events.exists() and not events.read_bytes().endswith(b"\n"):
        with events.open("ab") as file:
            file.write(b"\n")  # closes a torn line, so that the next event does not join it
    while True:
        with writing() as session:
            before = runs.get(session, watch.run_id)
            offset, config = before.ingest_offset, before.config
            watch.offset = ingest(session, watch.run_id, watch.attempt, moves=False).offset
        if watch.offset == offset:
            break
    (watch.folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))


def _attend(watch: _Watch, trainer: Trainer) -> int:
    """Stays with the trainer until it has left, and returns its exit code."""
    while (code := trainer.wait(watch.pace.poll)) is None:
        if watch.left.is_set():
            raise Fenced(f"run {watch.run_id}: attempt {watch.attempt} does not hold it")
        try:
            _report(watch)
            _hear_stop(watch)
        except OperationalError as error:  # the facts wait in the folder until the database is back
            logger.warning("run %s: not ingested for now: %s", watch.run_id, error.orig)
        if watch.asked_at is not None:
            trainer.press(time.monotonic() - watch.asked_at, watch.pace.stop, watch.pace.kill)
    watch.killed = trainer.killed
    return code


def _conclude(watch: _Watch, code: int) -> None:
    """The rest of the events and the last state, however long the database is away."""
    while True:
        try:
            while not _report(watch):
                pass
            _end(watch, code)
            return
        except OperationalError as error:
            logger.warning("run %s: has ended, which the database cannot be told yet: %s", watch.run_id, error.orig)
            if watch.left.wait(watch.pace.renew):
                raise Fenced(f"run {watch.run_id}: attempt {watch.attempt} does not hold it") from error


def _report(watch: _Watch) -> bool:
    """New events and the log's end into rows, without a transaction when there are none. True: nothing was left."""
    events = watch.folder / "events.jsonl"
    log = log_tail(watch.folder / "log.txt")
    unread = events.stat().st_size > watch.offset if events.exists() else False
    if not unread and log == watch.log:
        return True
    with writing() as session:
        batch = ingest(session, watch.run_id, watch.attempt)
        session.execute(update(Run).where(Run.id == watch.run_id).values(log_tail=log))
    finished = batch.offset == watch.offset
    watch.log, watch.offset, watch.ended = log, batch.offset, batch.ended or watch.ended
    return finished


def _hear_stop(watch: _Watch) -> None:
    if watch.asked_at is None:
        with reading() as session:
            if runs.get(session, watch.run_id).stop_requested_at is not None:
                watch.asked_at = time.monotonic()


def _end(watch: _Watch, code: int) -> None:
    with writing() as session:
        run = runs.get(session, watch.run_id)
        into = run.stop_into if run.stop_requested_at is not None else None
        to, why = _outcome(watch, code, into)
        runs.move(session, watch.run_id, to, who=watch.worker, why=why, attempt=watch.attempt)


def _outcome(watch: _Watch, code: int, into: str | None) -> tuple[str, str]:
    """The state and its why, from the trainer's last word, its exit code and the state that a stop was to lead to."""
    ended = watch.ended
    if ended is not None and ended.outcome == "failed":
        return "failed", f"{ended.what} ({ended.where})" if ended.where else ended.what
    if ended is not None and code == 0:
        if ended.outcome == "done":
            return "done", ""
        return (into, "") if into else ("stopped", "the trainer was told to stop from outside")
    if watch.killed and into:
        return into, "the trainer did not stop in time and was killed; resume goes on from its last checkpoint"
    ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
    lines = [line for line in watch.log.splitlines() if line.strip()][-WHY_LINES:]
    return "failed", "\n".join([f"the trainer {ending} without a last word", *lines])
