"""Rewards that were fitted to votes: which there are, what each was fitted to, and a fit that is under way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel, ValidationError

from db.settings import settings

WEIGHTS, PROGRESS = ".safetensors", ".progress"
WRITING_SECONDS = 10  # a note that is empty for longer was cut off as it was made
START_TOLERANCE = 1.0  # seconds; a process that started at another time has the pid of one that is gone


class LearnedReward(BaseModel):
    """A fitted reward. file: for `rewards` of a run, as {name: learned, file: ...}.

    set: name of the review set; accuracy: share of pairs of held-out prompts on which it prefers what was voted for,
    with its interval of 95 %; label: all of this in words.
    """

    file: str
    set: str
    base: str
    pairs: int
    votes: int
    fitted_at: datetime | None
    accuracy: float
    low: float
    high: float
    label: str


class Fitting(BaseModel):
    """A fit under way. done, total: pictures."""

    done: int
    total: int


class Note(Fitting):
    """What a fit under way keeps in its file. pid, started: of who fits, or of the server until that one runs."""

    pid: int
    started: float


class UnderWay(ValueError):
    """A reward is being fitted to the same votes."""


def folder() -> Path:
    return settings().data / "rewards"


def rewards(set_id: str | None = None) -> list[LearnedReward]:
    """Those in the data folder, of one set or of all; newest first."""
    found = [note for path in folder().glob("*" + WEIGHTS) if (note := read(path, set_id)) is not None]
    return sorted(found, key=lambda one: (one.fitted_at.timestamp() if one.fitted_at else 0.0, one.file), reverse=True)


def read(file: Path, set_id: str | None = None) -> LearnedReward | None:
    """What stands beside the weights. None where there is no such record, or it is of another set."""
    from backend.rewards.learned import Fitted, beside

    try:
        note = Fitted.model_validate_json(beside(file).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None
    if set_id is not None and note.set_id != set_id:
        return None
    when = f" on {day(note.fitted_at)}" if note.fitted_at else ""
    at = note.accuracy
    told = (
        f"fitted{when} to {note.votes} votes of “{note.set or Path(note.folder).name}”; prefers what was voted for in "
        f"{at.value:.1%} [{at.low:.1%}, {at.high:.1%}] of held-out pairs"
    )
    return LearnedReward(
        file=str(file),
        set=note.set,
        base=note.base,
        pairs=note.pairs,
        votes=note.votes,
        fitted_at=note.fitted_at,
        accuracy=at.value,
        low=at.low,
        high=at.high,
        label=told,
    )


def day(moment: datetime) -> str:
    return f"{moment.day} {moment:%b %Y}"


def labels(config: dict[str, Any]) -> dict[str, str]:
    """What the learned rewards of a run's settings, trained on or held out, were fitted to: by the reward's name."""
    evaluation = config.get("evaluation")
    held_out = evaluation.get("rewards") if isinstance(evaluation, dict) else None
    found = {}
    for one in (*_listed(config.get("rewards")), *_listed(held_out)):
        if one.get("name") == "learned" and (note := read(Path(str(one.get("file", ""))))) is not None:
            found["learned"] = note.label
    return found


def _listed(given: Any) -> Iterable[dict[str, Any]]:
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list | tuple) else []


def claim(set_id: str) -> None:
    """Notes that this process is about to fit to a set, for one alone. UnderWay where a fit to it lives."""
    file = _progress(set_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and fitting(set_id) is None:  # that one was cut off
        file.unlink(missing_ok=True)
    try:
        with file.open("xb") as made:
            made.write(_note(os.getpid()))
    except FileExistsError as taken:
        raise UnderWay("votes: a reward is being fitted to these votes; wait for it") from taken


def hand_over(set_id: str, pid: int) -> None:
    """Notes that a child now has the fit that this process has claimed."""
    from backend import media

    media.write_atomically(_progress(set_id), _note(pid))


def release(set_id: str, pid: int) -> None:
    """Forgets the fit of a process; one of another process stays."""
    note = _noted(set_id)
    if note is not None and note.pid == pid:
        _progress(set_id).unlink(missing_ok=True)


@contextmanager
def reporting(set_id: str) -> Iterator[Callable[[int, int], None]]:
    """Writes how far the fit of this process to a set is, where `fitting` finds it; of no set, it is not written.

    UnderWay where another process fits to the set; one that has started this process may have claimed it.
    """
    from backend import media

    if not set_id:
        yield lambda done, total: None
        return
    note = _noted(set_id)
    if note is None or not _lives(note) or note.pid not in (os.getpid(), os.getppid()):
        claim(set_id)

    def report(done: int, total: int) -> None:
        media.write_atomically(_progress(set_id), _note(os.getpid(), done, total))

    report(0, 0)
    try:
        yield report
    finally:
        release(set_id, os.getpid())


def fitting(set_id: str) -> Fitting | None:
    """The fit to a set that is under way: one whose process lives."""
    note = _noted(set_id)
    if note is not None:
        return Fitting(done=note.done, total=note.total) if _lives(note) else None
    try:
        age = time.time() - _progress(set_id).stat().st_mtime
    except FileNotFoundError:
        return None
    return Fitting(done=0, total=0) if age < WRITING_SECONDS else None


def _progress(set_id: str) -> Path:
    return folder() / f"{set_id}{PROGRESS}"


def _noted(set_id: str) -> Note | None:
    """None where there is none, or it is being written."""
    try:
        return Note.model_validate_json(_progress(set_id).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _note(pid: int, done: int = 0, total: int = 0) -> bytes:
    started = psutil.Process(pid).create_time()
    return Note(pid=pid, started=started, done=done, total=total).model_dump_json().encode()


def _lives(note: Note) -> bool:
    try:
        process = psutil.Process(note.pid)
        same = abs(process.create_time() - note.started) < START_TOLERANCE
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
