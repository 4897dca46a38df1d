"""A worker beside the web server, as its child."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from workers import process
from workers.supervise import Pace
from workers.trainer import python_environment

WORKER_COMMAND = (sys.executable, "-m", "app", "worker")
LEAVE_SECONDS = Pace().stop + Pace().kill + 30.0


@contextmanager
def worker_process(broker_url: str, command: Sequence[str] = WORKER_COMMAND) -> Iterator[subprocess.Popen[bytes]]:
    """A worker on broker_url, which leaves at exit, and by itself when this process is killed.

    It gives its runs back to the queue first, so leaving takes as long as its trainers need to save.
    """
    worker = subprocess.Popen(
        [*command, "--watch-stdin"],
        stdin=subprocess.PIPE,
        env=python_environment() | {"CELERY_BROKER_URL": broker_url},
        start_new_session=True,  # Ctrl+C reaches it as a closed stdin, not as a second signal
    )
    try:
        yield worker
    finally:
        assert worker.stdin is not None
        worker.stdin.close()
        try:
            worker.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            family = process.descendants(worker.pid)
            worker.kill()
            worker.wait()
            process.kill(family)
