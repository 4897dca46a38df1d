"""What votes are for, over HTTP: a run that trains on them, and a reward that is fitted to them."""

from __future__ import annotations

import json
import subprocess
import sys

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field

from db.settings import settings
from frontend_components.api import PERSON, Launched, found
from frontend_components.judging.vote_training import TrainIn, judged, run_config

router = APIRouter(prefix="/api/v1")
FIT_SECONDS = 1800


class RewardIn(BaseModel):
    model_config = ConfigDict(extra="forbid")
    base: str = Field("shapes", min_length=1, description="The base model whose features it is fitted on")


class RewardOut(BaseModel):
    """file: for `rewards` of a run, as {name: learned, file: ...}. accuracy: held-out, with its interval of 95 %."""

    file: str
    pairs: int
    accuracy: float
    low: float
    high: float


@router.post("/review-sets/{set_id}/train", status_code=201)
def train(set_id: str, body: TrainIn) -> Launched:
    """Queues a run on the votes as they are; later votes do not change it. 422 says why there can be none."""
    from workers import queue

    try:
        archive, folder = found(lambda: judged(set_id))
        config = run_config(archive, folder.folder, body)
    except ValueError as refused:
        raise HTTPException(422, str(refused)) from refused
    return Launched(id=queue.launch(config, None, PERSON))


@router.post("/review-sets/{set_id}/reward", status_code=201)
def fit_reward(set_id: str, body: RewardIn) -> RewardOut:
    """Fits a reward to the votes as they are, in a process of its own; takes up to a few minutes."""
    from workers.trainer import python_environment

    try:
        _, folder = found(lambda: judged(set_id))
    except ValueError as refused:
        raise HTTPException(422, str(refused)) from refused
    out = settings().data / "rewards" / f"{folder.folder.name}-{body.base.replace('/', '-')}.safetensors"
    command = [sys.executable, "-m", "app", "votes", "fit", str(folder.folder), "--base", body.base, "--json"]
    done = subprocess.run(
        [*command, "--out", str(out)],
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=FIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise HTTPException(422, (done.stderr.strip().splitlines() or ["the fit ended without a word"])[-1])
    return RewardOut.model_validate(json.loads(done.stdout) | {"file": str(out)})
