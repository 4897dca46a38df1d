"""`espalier import DIR`: a run that was made on the command line, or elsewhere, becomes a run of this lab."""

from __future__ import annotations

import argparse
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from backend import events
from db import runs
from db.session import migrate, writing
from db.settings import settings
from workers.ingest import ingest

WHO = "import"
LEASE_SECONDS = 600.0


def adopt(folder: Path, owner: str = "local") -> str:
    """Copies a run folder into the lab's data and reads its events into rows; returns the id of the new run.

    A run whose events do not tell its end becomes `stopped`, so that it can be resumed here. Raises ValueError when
    the folder is no run folder.
    """
    from backend.config import load

    for name in ("config.yaml", "events.jsonl"):
        if not (folder / name).is_file():
            raise ValueError(f"DIR: {folder} holds no {name}; give the --out folder of `espalier train`")
    config = load(folder / "config.yaml")
    copied = settings().runs / f".importing-{uuid4().hex}"  # a copy that fails leaves no row behind
    try:
        shutil.copytree(folder, copied, ignore=shutil.ignore_patterns(".*"))
        with writing() as session:
            values = config.model_dump(mode="json")
            run_id = runs.create(session, name=config.name, config=values, preset=None, owner=owner).id
            attempt = runs.claim(session, run_id, WHO, LEASE_SECONDS)  # before any worker can see it
        copied.rename(settings().run_dir(run_id))
    finally:
        shutil.rmtree(copied, ignore_errors=True)
    assert attempt is not None
    offset = -1
    while True:
        with writing() as session:
            runs.renew(session, run_id, attempt, LEASE_SECONDS)
            batch = ingest(session, run_id, attempt)
        if batch.offset == offset:
            break
        offset = batch.offset
    ended = _last_word(folder)
    with writing() as session:
        to = ended.outcome if ended else "stopped"
        why = (ended.what or "" if ended else "its events tell no end") or f"imported from {folder}"
        runs.move(session, run_id, to, who=WHO, why=why, attempt=attempt)
        run = runs.get(session, run_id)
        run.started_at, run.ended_at = _first_time(folder) or run.started_at, run.heartbeat_at
    return run_id


def _last_word(folder: Path) -> events.RunEnded | None:
    """How the run ended; None where it was started again after that, and nothing tells the end of it."""
    bounds = [
        one for one in events.read(folder / "events.jsonl") if isinstance(one, events.RunStarted | events.RunEnded)
    ]
    return bounds[-1] if bounds and isinstance(bounds[-1], events.RunEnded) else None


def _first_time(folder: Path) -> datetime | None:
    """When the first event was written: the run took place then, not when it was taken in."""
    with (folder / "events.jsonl").open("rb") as file:
        line = file.readline()
    return datetime.fromtimestamp(events.parse(line).time, UTC) if line.endswith(b"\n") else None


def main(argv: list[str]) -> int:
    """espalier import DIR: prints the run's id."""
    parser = argparse.ArgumentParser(prog="espalier import", description="Take a run folder into the lab.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the --out folder of `espalier train`")
    options = parser.parse_args(argv)
    migrate()
    try:
        print(adopt(options.folder))
    except (ValueError, OSError) as error:
        print(f"espalier import: {error}", file=sys.stderr)
        return 2
    return 0
