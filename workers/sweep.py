"""What a worker does beside its runs: say that it lives, find lost runs, send lost messages again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy.exc import OperationalError

from db import runs, stream, waits, workers
from db.models import utc_now
from db.session import reading, writing
from workers.queue import num_waiting, send

SWEEP_SECONDS = 5.0
LEAVING_SECONDS = 1.0
ALIVE = timedelta(seconds=4 * SWEEP_SECONDS)
STREAM_KEPT = timedelta(days=1)

logger = logging.getLogger(__name__)


class Sweeper(threading.Thread):
    """Sweeps every SWEEP_SECONDS until `leaving` is set; from then on it gives the worker's runs back to the queue."""

    def __init__(self, worker: str, slots: int, processes: int = 1) -> None:
        super().__init__(name="sweeper", daemon=True)
        self.worker, self.slots, self.processes, self.started_at = worker, slots, processes, utc_now()
        self.leaving, self.over = threading.Event(), threading.Event()

    def run(self) -> None:
        while not self.leaving.is_set():
            self._try(self._sweep)
            self.leaving.wait(SWEEP_SECONDS)
        while True:  # more than once: a run may be claimed while the worker is about to leave
            self._try(self._release)
            if self.over.wait(LEAVING_SECONDS):
                break
        self._try(self._sign_off)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OperationalError as error:
            logger.warning("the database is away, the next sweep tries again: %s", error.orig)

    def _sweep(self) -> None:
        with writing() as session:
            workers.beat(session, self.worker, os.getpid(), self.slots, self.started_at, self.processes)
        sweep()

    def _release(self) -> None:
        with writing() as session:
            runs.release(session, self.worker)

    def _sign_off(self) -> None:
        with writing() as session:
            workers.leave(session, self.worker)


def sweep() -> list[str]:
    """One round. Returns the runs that were sent again.

    A run that asks for more processes than any live worker takes is told so, and not sent until there is one.

    Waiting runs have a message in the broker, unless it was lost; so only an empty queue is filled again, and
    messages do not pile up behind a long run.
    """
    now = utc_now()
    with writing() as session:
        for run_id in runs.reap(session, now):
            logger.warning("run %s is lost", run_id)
        stream.prune(session, now - STREAM_KEPT)
        most = workers.most_processes(session, now - ALIVE)
        too_large = waits.explain(session, most) if most else set()
    with reading() as session:
        waiting = [one for one in runs.waiting(session, now - timedelta(seconds=SWEEP_SECONDS)) if one not in too_large]
    if not waiting or num_waiting() != 0:
        return []
    return [run_id for run_id in waiting if send(run_id)]
