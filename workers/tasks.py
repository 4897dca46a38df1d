"""What a message starts. The message carries the run's id; everything else stands in the run's row."""

from __future__ import annotations

import os
from typing import Any

from billiard.process import current_process
from celery import Celery

from workers.queue import TASK
from workers.supervise import supervise
from workers.trainer import trainer_command


def register(app: Celery, slots: int) -> None:
    """Adds the tasks to an application whose worker has so many slots."""

    @app.task(name=TASK, bind=True)
    def train(self: Any, run_id: str) -> None:
        slot = getattr(current_process(), "index", 0)
        supervise(run_id, self.request.hostname, trainer_command, devices=device_of(slot, slots))


def device_of(slot: int, slots: int) -> str | None:
    """The GPU of one slot: of CUDA_VISIBLE_DEVICES where that is set. None, for all of them, when there is one slot."""
    if slots == 1:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(index) for index in range(slots)]
    return devices[slot % len(devices)]
