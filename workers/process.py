"""Child processes and all that they started: begin, remember, end."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

KILL_SECONDS = 10.0
POLL_SECONDS = 0.02


def descendants(pid: int) -> set[psutil.Process]:
    """All processes below pid. Taken while it lives: once it is gone they belong to nobody."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def runs(process: psutil.Process) -> bool:
    """False when it is gone, or dead and only not yet collected by its parent."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kills and waits until they are gone. A psutil.Process knows its start time, so a reused pid is not harmed.

    Not for a subprocess.Popen of our own: its exit code is for Popen.wait to collect.
    """
    doomed = list(processes)
    for process in doomed:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    deadline = time.monotonic() + KILL_SECONDS
    while any(map(runs, doomed)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def note(pid: int, path: Path) -> None:
    """Writes who runs, for `end_noted` of a later supervisor."""
    path.write_text(
        json.dumps({"host": socket.gethostname(), "pid": pid, "started": psutil.Process(pid).create_time()})
    )


def end_noted(path: Path) -> None:
    """Kills the noted process with its descendants if it still runs on this host: two must never write one folder."""
    if not path.exists():
        return
    noted = json.loads(path.read_text())
    if noted["host"] == socket.gethostname() and psutil.pid_exists(noted["pid"]):
        process = psutil.Process(noted["pid"])
        if process.create_time() == noted["started"]:
            kill({process} | descendants(process.pid))
    path.unlink()
