"""What votes are for, over HTTP: a run that trains on them, and a reward that is fitted to them."""

from __future__ import annotations

import os
import subprocess
import sys

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field

from db import reviews
from db.session import reading
from frontend_components.api import PERSON, Launched, found
from frontend_components.judging import learned_rewards
from frontend_components.judging.learned_rewards import Fitting, LearnedReward
from frontend_components.judging.vote_training import TrainIn, base_judged, judged, run_config

router = APIRouter(prefix="/api/v1")
FIT_SECONDS = 1800


class RewardIn(BaseModel):
    model_config = ConfigDict(extra="forbid")
    base: str | None = Field(None, min_length=1, description="Whose features it uses; empty: the base that was judged")


class RewardsOut(BaseModel):
    """fitting: a fit under way; fitted: those that are there, newest first."""

    fitting: Fitting | None
    fitted: list[LearnedReward]


@router.get("/rewards/learned")
def learned() -> list[LearnedReward]:
    """All rewards that were fitted to votes, newest first."""
    return learned_rewards.rewards()


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
def fit_reward(set_id: str, body: RewardIn) -> LearnedReward:
    """Fits a reward to the votes as they are, in a process of its own; takes up to a few minutes.

    422 says why there can be none, 409 that it is being fitted.
    """
    try:
        archive, folder = found(lambda: judged(set_id))
    except ValueError as refused:
        raise HTTPException(422, str(refused)) from refused
    base = body.base or base_judged(archive)
    name = f"{set_id}-{folder.folder.name}-{base.replace('/', '-')}"
    out = learned_rewards.folder() / (name + learned_rewards.WEIGHTS)
    try:
        learned_rewards.claim(set_id)
        code, told = _fit(set_id, ["fit", str(folder.folder), "--set-id", set_id, "--base", base, "--out", str(out)])
    except learned_rewards.UnderWay as refused:
        raise HTTPException(409, str(refused)) from refused
    except subprocess.TimeoutExpired as slow:
        late = f"the fit took longer than {FIT_SECONDS} s; `espalier votes fit {set_id}` has no limit"
        raise HTTPException(504, late) from slow
    if code != 0:
        raise HTTPException(422, (told.strip().splitlines() or ["the fit ended without a word"])[-1])
    made = learned_rewards.read(out)
    assert made is not None, f"{out} was written with its record"
    return made


def _fit(set_id: str, arguments: list[str]) -> tuple[int, str]:
    """`espalier votes` as a child that takes over this process's claim on the set: its exit code, and what it said."""
    from workers.trainer import python_environment

    command = [sys.executable, "-m", "app", "votes", *arguments]
    holder = os.getpid()
    try:
        with subprocess.Popen(
            command, env=python_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                learned_rewards.hand_over(set_id, child.pid)
                holder = child.pid
                told = child.communicate(timeout=FIT_SECONDS)[1]
            except BaseException:
                child.kill()
                raise
        return child.returncode, told
    finally:
        learned_rewards.release(set_id, holder)


@router.get("/review-sets/{set_id}/reward")
def rewards_of(set_id: str) -> RewardsOut:
    """The rewards that were fitted to a set's votes, and how far one is that is being fitted."""
    with reading() as session:
        found(lambda: reviews.get(session, set_id))
    return RewardsOut(fitting=learned_rewards.fitting(set_id), fitted=learned_rewards.rewards(set_id))
