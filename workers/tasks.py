"""What a message starts. The message carries the run's id; everything else stands in the run's row."""

from __future__ import annotations

from typing import Any

from billiard.process import current_process
from celery import Celery

from db import waits
from db.session import reading
from workers import capacity
from workers.queue import TASK
from workers.supervise import supervise
from workers.trainer import trainer_command


def register(app: Celery, slots: int, owned: list[str]) -> None:
    """Adds the tasks to an application whose worker has so many slots and owns these GPUs."""

    @app.task(name=TASK, bind=True)
    def train(self: Any, run_id: str) -> None:
        slot = getattr(current_process(), "index", 0)
        if takes(run_id, capacity.processes(slots, owned)):
            supervise(run_id, self.request.hostname, trainer_command, devices=devices_of(slot, slots, owned))


def takes(run_id: str, most: int) -> bool:
    """Whether a run asks for no more processes than a slot has. One that does stays queued, and is sent again."""
    with reading() as session:
        return waits.processes(session, run_id) <= most


def devices_of(slot: int, slots: int, owned: list[str]) -> str | None:
    """CUDA_VISIBLE_DEVICES of one slot's runs. None, to leave it as it is, when one slot has all there is."""
    if slots == 1 or not owned:
        return None
    return ",".join(capacity.devices(slot, slots, owned))
