"""The worker process: takes messages, one supervisor a slot, and sweeps beside."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from typing import Any

from celery.exceptions import SecurityWarning
from celery.signals import worker_ready, worker_shutting_down

from db.session import migrate
from db.settings import settings
from workers import capacity
from workers.broker import broker_url, embedded, embedded_url
from workers.queue import QUEUE, celery_app
from workers.sweep import Sweeper
from workers.tasks import register


def main(argv: list[str]) -> int:
    """espalier worker: runs until SIGTERM or Ctrl+C, then gives its runs back to the queue, each with a checkpoint."""
    parser = argparse.ArgumentParser(prog="espalier worker", description="Take queued runs and supervise them.")
    parser.add_argument("--slots", type=int, default=1, help="runs at a time, which share the GPUs evenly")
    parser.add_argument("--name", default=f"worker@{socket.gethostname()}", help="name@host, unlike any other worker's")
    parser.add_argument("--watch-stdin", action="store_true", help="leave when stdin closes")
    arguments = parser.parse_args(argv)
    if arguments.slots < 1:
        parser.error("--slots: a worker needs at least one")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    migrate()
    if arguments.watch_stdin:
        threading.Thread(target=_leave_with_stdin, name="stdin", daemon=True).start()
    with contextlib.ExitStack() as stack:
        url = broker_url()
        if url == embedded_url(settings().data):
            stack.enter_context(embedded(settings().data))
        return _work(url, arguments.name, arguments.slots)


def _work(url: str, name: str, slots: int) -> int:
    # it warns root of pickled tasks, and JSON alone is accepted here
    warnings.filterwarnings("ignore", category=SecurityWarning)
    app = celery_app(url)
    owned = capacity.gpus()
    register(app, slots, owned)
    sweeper = Sweeper(name, slots, capacity.processes(slots, owned))

    def ready(**_: Any) -> None:
        sweeper.start()

    def shutting_down(**_: Any) -> None:
        sweeper.leaving.set()

    worker_ready.connect(ready, weak=False)
    worker_shutting_down.connect(shutting_down, weak=False)
    worker = app.Worker(
        hostname=name,
        concurrency=slots,
        pool="prefork",
        queues=[QUEUE],
        loglevel=logging.WARNING,
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    worker.start()
    sweeper.leaving.set()
    sweeper.over.set()
    if sweeper.is_alive():
        sweeper.join()
    return worker.exitcode or 0


def _leave_with_stdin() -> None:
    """Whoever started this worker holds the other end; when it is gone, however it went, we leave in good order."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
