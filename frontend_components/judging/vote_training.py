"""From the votes of a review set to a run that trains on them, and to the folder that such a run reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from backend.preferences import judged_folder
from backend.preferences.archive import Archive
from backend.preferences.decided import Decided, decided
from db import artifacts, runs
from db.session import reading
from db.settings import settings
from frontend_components.judging import review_archive

if TYPE_CHECKING:
    from backend.config import RunConfig

FEWEST = 16
BUNDLED = "shapes"


class TrainIn(BaseModel):
    """evaluate_judged: also evaluate held-out prompts whose votes are trained on, which flatters the run."""

    model_config = ConfigDict(extra="forbid")
    method: Literal["dpo", "dgpo"] = "dpo"
    steps: int | None = Field(None, ge=1, le=1_000_000, description="Empty: 2.5 passes over the pairs")
    name: str = Field("from votes", min_length=1, max_length=120, pattern=r"\S")
    evaluate_judged: bool = False


class Judged(BaseModel):
    """A written folder of judged pairs. left_out: pairs that votes do not decide, by reason."""

    folder: Path
    pairs: int
    votes: int
    left_out: dict[str, int]


def judged(set_id: str) -> tuple[Archive, Judged]:
    """The set's votes as they are, and their folder. LookupError without the set, ValueError with too few votes."""
    with reading() as session:
        archive = review_archive.archive(session, set_id)
        found = decided(archive)
        if len(found.pairs) < FEWEST:
            raise ValueError(_too_few(found))
        folder = judged_folder.write(settings().data / "votes", archive, lambda name: _picture(session, name))
    return archive, Judged(folder=folder, pairs=len(found.pairs), votes=found.votes, left_out=found.left_out)


def run_config(archive: Archive, folder: Path, wish: TrainIn) -> RunConfig:
    """Settings of a run on the judged pairs, from the base of the newest run whose samples were judged.

    Held-out prompts that were judged are not evaluated, unless that is wished. ValueError where settings do not fit.
    """
    from backend.votes_config import on_votes, steps_for

    pairs = decided(archive).pairs
    trained = set() if wish.evaluate_judged else {pair.prompt for pair in pairs}
    steps = wish.steps or steps_for(len(pairs))
    return on_votes(wish.method, folder, steps, wish.name.strip(), _settings_judged(archive), trained)


def base_judged(archive: Archive) -> str:
    """model.base of the newest run whose samples were judged; the bundled base where that is not known."""
    model = _settings_judged(archive).get("model")
    return str(model.get("base", BUNDLED)) if isinstance(model, dict) else BUNDLED


def _settings_judged(archive: Archive) -> dict[str, Any]:
    """Of the newest run whose samples were judged and which is here; run ids begin with their time."""
    with reading() as session:
        for run_id in sorted({model.run_id for model in archive.models if model.run_id}, reverse=True):
            try:
                return dict(runs.get(session, run_id).config)
            except LookupError:
                continue
    return {}


def _too_few(found: Decided) -> str:
    reasons = ", ".join(f"{reason} {count}" for reason, count in found.left_out.items())
    left_out = f" (left out: {reasons})" if reasons else ""
    return f"votes: {len(found.pairs)} pairs are decided{left_out}, fewer than {FEWEST}; judge more pairs first"


def _picture(session: Session, name: str) -> Path:
    """The stored file of a picture. ValueError where it is not on this machine."""
    try:
        path = settings().data / artifacts.get(session, name).path if re.fullmatch("[0-9a-f]{64}", name) else None
    except LookupError:
        path = None
    if path is None or not path.is_file():
        raise ValueError(f"votes: the picture {name} is not on this machine; votes without pictures cannot train")
    return path
