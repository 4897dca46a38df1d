"""From a person's wish to a row and a message. The row commits first: a message that is lost can be sent again."""

from __future__ import annotations

import argparse
import logging
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError

from db import runs
from db.session import migrate, writing
from workers.broker import broker_url

if TYPE_CHECKING:
    from backend.config import RunConfig

QUEUE = "runs"
TASK = "espalier.train"
SEND_SECONDS = 3.0

logger = logging.getLogger(__name__)


@cache
def celery_app(url: str) -> Celery:
    """The Celery application on one broker: JSON only, no results, early acknowledgement."""
    app = Celery("espalier", set_as_current=False)
    app.conf.update(
        task_default_queue=QUEUE,
        task_serializer="json",
        accept_content=["json"],
        result_accept_content=["json"],
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
    )
    if url.startswith("filesystem://"):
        app.conf.update(broker_url="filesystem://", broker_transport_options=_folders(Path(url.partition("://")[2])))
    else:
        app.conf.update(broker_url=url, worker_disable_prefetch=url.startswith("redis"))
    return app


def send(run_id: str) -> bool:
    """Sends the message of a queued run. False, and a line in the log, when the broker cannot be reached: a worker's
    sweep sends it later."""
    try:
        with _connection() as connection:
            celery_app(broker_url()).send_task(TASK, args=[run_id], queue=QUEUE, connection=connection, retry=False)
    except OperationalError as error:
        logger.warning("run %s stays queued, since the broker cannot be reached: %s", run_id, error)
        return False
    return True


def num_waiting() -> int | None:
    """Messages that no worker has taken yet; None when the broker cannot be reached."""
    try:
        with _connection() as connection:
            return int(connection.default_channel.queue_declare(queue=QUEUE, durable=True).message_count)
    except OperationalError as error:
        logger.warning("the broker cannot be reached: %s", error)
        return None


def launch(config: RunConfig, preset: str | None, who: str) -> str:
    """Queues a run and returns its id."""
    with writing() as session:
        run = runs.create(session, name=config.name, config=config.model_dump(mode="json"), preset=preset, owner=who)
    send(run.id)
    return run.id


def stop(run_id: str, who: str) -> bool:
    """Asks for a stop; a run that is training saves a checkpoint first. False when it has ended already."""
    with writing() as session:
        return runs.request_stop(session, run_id, who)


def pause(run_id: str, who: str) -> bool:
    """A stop that leads to `paused`. False when the run has ended already."""
    with writing() as session:
        return runs.request_stop(session, run_id, who, into="paused")


def resume(run_id: str, who: str) -> bool:
    """Queues a paused, stopped, failed or lost run again; it goes on from its last checkpoint. False for any other."""
    with writing() as session:
        resumed = runs.resume(session, run_id, who)
    if resumed:
        send(run_id)
    return resumed


def main(argv: list[str]) -> int:
    """espalier launch CONFIG [--set key=value]: prints the run's id."""
    parser = argparse.ArgumentParser(prog="espalier launch", description="Queue a run for a worker; prints its id.")
    parser.add_argument("config", type=Path, help="a YAML file, or the name of a preset")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override one value")
    parser.add_argument("--who", default="local", help="owner of the run")
    arguments = parser.parse_args(argv)

    from backend import first_frames
    from backend.config import load, preset_names, preset_path

    preset = str(arguments.config) if str(arguments.config) in preset_names() else None
    migrate()
    config = load(preset_path(preset) if preset else arguments.config, arguments.set)
    try:
        config.model.check_access()
        first_frames.require(config)
    except ValueError as error:
        print(f"espalier launch: {error}", file=sys.stderr)
        return 2
    print(launch(config, preset, arguments.who))
    return 0


def _connection() -> Connection:
    """One that gives up quickly: a page waits for it, and a sweep tries again."""
    quick = {"max_retries": 0, "socket_connect_timeout": SEND_SECONDS, "socket_timeout": SEND_SECONDS}
    return celery_app(broker_url()).connection_for_write(transport_options=quick)


def _folders(folder: Path) -> dict[str, Any]:
    for name in ("queue", "control"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(folder / "queue"),
        "data_folder_out": str(folder / "queue"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.2,
    }
