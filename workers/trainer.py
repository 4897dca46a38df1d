"""The trainer as a child process: how it is started, asked to stop, made to stop, and seen gone."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from workers import process

PROJECT = Path(__file__).resolve().parents[1]
FAMILY_SECONDS = 2.0
SECRETS = ("DATABASE_URL", "CELERY_BROKER_URL", "POSTGRES_PASSWORD", "REDIS_PASSWORD", "ESPALIER_PASSWORD")

logger = logging.getLogger(__name__)


def trainer_command(folder: Path) -> list[str]:
    """What trains the run of a folder; where it has trained before, on from the last checkpoint if there is one."""
    command = [sys.executable, "-m", "app", "train", str(folder / "config.yaml"), "--out", str(folder), "--watch-stdin"]
    return [*command, "--resume"] if (folder / "events.jsonl").exists() else command


def python_environment() -> dict[str, str]:
    """Our environment in which a Python child finds our modules first, wherever it starts."""
    paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


class Trainer:
    """A trainer that runs in a folder, with its output in log.txt and its identity in trainer.json.

    devices: its CUDA_VISIBLE_DEVICES, None to leave them as they are. It sees neither database nor broker.
    """

    def __init__(self, folder: Path, command: Callable[[Path], list[str]], devices: str | None) -> None:
        self._note = folder / "trainer.json"
        self._family: set[psutil.Process] = set()
        self._looked_at = 0.0
        self._termed_at: float | None = None
        self.killed = False
        environment = {name: value for name, value in python_environment().items() if name not in SECRETS}
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **environment, "PYTHONUNBUFFERED": "1"}
        if devices is not None:
            environment["CUDA_VISIBLE_DEVICES"] = devices
        with (folder / "log.txt").open("ab") as log:
            self._child = subprocess.Popen(
                command(folder),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # a Ctrl+C at the terminal is the supervisor's to handle
            )
        process.note(self._child.pid, self._note)

    def wait(self, seconds: float) -> int | None:
        """Its exit code once it has left, negative for a signal; None when it still runs after so many seconds."""
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            if time.monotonic() - self._looked_at > FAMILY_SECONDS:
                self._look()
            return None

    def press(self, waited: float, stop: float, kill: float) -> None:
        """Asks it to stop, `waited` seconds after that was first wanted: the line `stop`, SIGTERM after `stop` seconds,
        SIGKILL `kill` seconds later."""
        self._say_stop()
        if self._termed_at is None:
            if waited > stop:
                self._child.send_signal(signal.SIGTERM)
                self._termed_at = waited
        elif waited - self._termed_at > kill:
            self.killed = True
            self._look()
            self._child.kill()

    def clear(self) -> None:
        """Kills what is left of it and of all that it started, and returns when nothing is."""
        if self._child.poll() is None:
            self._look()
            self._child.kill()
        self._child.wait()
        self._close_stdin()
        process.kill(self._family)
        self._note.unlink(missing_ok=True)

    def _look(self) -> None:
        self._family |= process.descendants(self._child.pid)
        self._looked_at = time.monotonic()

    def _say_stop(self) -> None:
        assert self._child.stdin is not None
        if self._child.stdin.closed:
            return
        try:
            self._child.stdin.write(b"stop\n")
        finally:
            self._close_stdin()

    def _close_stdin(self) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
        except BrokenPipeError:
            logger.info("trainer %d had closed its stdin", self._child.pid)
