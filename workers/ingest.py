"""A run folder's events.jsonl to rows: each whole line exactly once, since rows and offset commit together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError
from sqlalchemy import update
from sqlalchemy.orm import Session

from backend.events import (
    AnyEvent,
    CheckpointSaved,
    EvaluationDone,
    Media,
    Progress,
    RunEnded,
    RunStarted,
    SamplesSaved,
    StepDone,
    TreeDrawn,
    parse,
)
from db import artifacts, checkpoints, evaluations, metrics, runs, samples, stream, trees
from db.models import Run
from db.settings import settings

BATCH_BYTES = 4 << 20
SMOOTHING = 0.8  # of seconds per step, towards the older ones
POSTER_MIMES = {".jpg": "image/jpeg", ".png": "image/png", ".webp": "image/webp"}

logger = logging.getLogger(__name__)


class Fenced(Exception):
    """The run is no longer this attempt's."""


@dataclass(frozen=True)
class Batch:
    """What one call read. offset: where the next one begins; ended: the trainer's last word, if it said it here."""

    offset: int
    num_events: int = 0
    ended: RunEnded | None = None


@dataclass
class _Writer:
    """Rows of one batch. changes: columns of the run; of growing trees and progress only the last state is kept."""

    session: Session
    run: Run
    moves: bool
    changes: dict[str, Any] = field(default_factory=dict)
    drawn: dict[tuple[int, int], TreeDrawn] = field(default_factory=dict)
    progress: Progress | None = None
    ended: RunEnded | None = None


def ingest(session: Session, run_id: str, attempt: int, *, moves: bool = True) -> Batch:
    """Reads on from the row's offset, at most about BATCH_BYTES, into rows. Call it again until it reads nothing.

    A line that is not an event, such as one torn by a full disk, is skipped, logged and counted in the run's facts.
    moves=False: of an earlier attempt; its start and end say nothing about this one. Raises Fenced.
    """
    run = session.get(Run, run_id, populate_existing=True, with_for_update=True)
    if run is None or run.attempt != attempt or run.state not in runs.HELD:
        raise Fenced(f"run {run_id}: attempt {attempt} does not hold it")
    data = _whole_lines(settings().run_dir(run_id) / "events.jsonl", run.ingest_offset)
    if not data:
        return Batch(run.ingest_offset)
    writer = _Writer(session, run, moves)
    num_events, num_unreadable = 0, 0
    for event in _events(data.splitlines(), run_id):
        if event is None:
            num_unreadable += 1
            continue
        _write(writer, event)
        num_events += 1
        writer.changes["heartbeat_at"] = datetime.fromtimestamp(event.time, UTC)
    _write_latest(writer)
    if num_unreadable:
        facts = writer.changes.get("facts", run.facts)
        total = int(facts.get("unreadable_events", 0)) + num_unreadable
        writer.changes["facts"] = {**facts, "unreadable_events": str(total)}
    offset = run.ingest_offset + len(data)
    session.execute(update(Run).where(Run.id == run_id).values(**writer.changes, ingest_offset=offset))
    return Batch(offset, num_events, writer.ended if moves else None)


def _whole_lines(path: Path, offset: int) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(BATCH_BYTES)
        if len(data) == BATCH_BYTES:
            data += file.readline()
    return data[: data.rfind(b"\n") + 1]


def _events(lines: Iterable[bytes], run_id: str) -> Iterator[AnyEvent | None]:
    for line in lines:
        try:
            yield parse(line)
        except ValidationError as error:
            logger.warning("run %s: skipped a line of events.jsonl: %s", run_id, error.errors()[0]["msg"])
            yield None


def _write(writer: _Writer, event: AnyEvent) -> None:
    session, run_id = writer.session, writer.run.id
    match event:
        case RunStarted():
            _start(writer, event)
        case Progress():
            writer.progress = event
        case StepDone():
            _step(writer, event)
        case TreeDrawn():
            writer.drawn[event.step, event.prompt_index] = event
        case SamplesSaved():
            _samples(writer, event)
        case EvaluationDone():
            evaluations.put(session, run_id, event.step, event.report, event.time)
            stream.publish(session, run_id, "evaluation", {"step": event.step})
        case CheckpointSaved():
            checkpoints.put(session, run_id, event.step, event.path, event.bytes, event.time)
            stream.publish(session, run_id, "checkpoint", {"step": event.step})
        case RunEnded():
            writer.ended = event
            writer.progress = None
            writer.changes |= {"phase": "", "phase_done": 0, "phase_total": 0}


def _start(writer: _Writer, event: RunStarted) -> None:
    parameters = {"trained_parameters": event.trained_parameters, "total_parameters": event.total_parameters}
    writer.changes |= {
        "step": event.start_step,
        "total_steps": event.total_steps,
        "forwards_per_prompt": event.forwards_per_prompt,
        "facts": event.facts | {name: str(count) for name, count in parameters.items()},
    }
    if writer.moves:
        run = writer.run
        runs.move(writer.session, run.id, "running", who=run.worker or "", attempt=run.attempt)


def _step(writer: _Writer, event: StepDone) -> None:
    run_id, values = writer.run.id, event.metrics
    metrics.append(writer.session, run_id, event.step, values, event.time)
    stream.publish(writer.session, run_id, "step", {"step": event.step, "metrics": values})
    writer.changes |= {"step": event.step, "phase": "", "phase_done": 0, "phase_total": 0}
    if (reward := values.get("train/reward_mean")) is not None:
        writer.changes["last_reward"] = reward
    if (seconds := values.get("time/step")) is not None:
        before = writer.changes.get("seconds_per_step", writer.run.seconds_per_step)
        smooth = seconds if before is None else SMOOTHING * before + (1 - SMOOTHING) * seconds
        writer.changes["seconds_per_step"] = smooth


def _samples(writer: _Writer, event: SamplesSaved) -> None:
    session, run_id = writer.session, writer.run.id
    artifacts.put(session, [row for sample in event.samples for row in _artifacts(run_id, sample.media)])
    rows = [
        sample.model_dump(mode="json", exclude={"media"}) | {"sha256": sample.media.sha256} for sample in event.samples
    ]
    samples.put(session, run_id, event.collection, event.step, rows)
    stream.publish(session, run_id, "samples", {"collection": event.collection, "step": event.step})


def _write_latest(writer: _Writer) -> None:
    session, run_id = writer.session, writer.run.id
    for (step, prompt_index), tree in writer.drawn.items():
        if tree.sprite is not None:
            artifacts.put(session, _artifacts(run_id, tree.sprite.media))
        trees.put(session, run_id, tree.model_dump(mode="json"))
        notice = {"step": step, "prompt_index": prompt_index, "level": tree.level, "complete": bool(tree.advantages)}
        stream.publish(session, run_id, "tree", notice)
    if writer.progress is not None:
        notice = writer.progress.model_dump(include={"step", "phase", "done", "total"})
        writer.changes |= {"phase": notice["phase"], "phase_done": notice["done"], "phase_total": notice["total"]}
        stream.publish(session, run_id, "progress", notice)


def _artifacts(run_id: str, media: Media) -> list[dict[str, Any]]:
    """The rows of a media file and of its poster. ValueError for a path that leaves the run's folder."""
    inside = PurePosixPath(media.path)
    if inside.is_absolute() or ".." in inside.parts:
        raise ValueError(f"media path: {media.path!r} leaves the run's folder; it has to be relative to it, without ..")
    rows = [media.model_dump() | {"path": f"runs/{run_id}/{inside}"}]
    if media.poster is not None:
        folder = settings().run_dir(run_id) / "media" / media.poster[:2]
        for path in folder.glob(f"{media.poster}.*"):
            size = {"width": media.width, "height": media.height, "bytes": path.stat().st_size}
            place = {"path": f"runs/{run_id}/media/{media.poster[:2]}/{path.name}", "mime": POSTER_MIMES[path.suffix]}
            rows.append({"sha256": media.poster, "poster": None} | size | place)
    return rows
