"""The JSON interface, /api/v1: everything the pages show and every button they have."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, ConfigDict, ValidationError

from db import artifacts, checkpoints, evaluations, metrics, runs, samples, trees
from db.session import reading
from frontend_components.drafts import Problem, problems_of, prompts_of
from frontend_components.judging import learned_rewards

router = APIRouter(prefix="/api/v1")
PERSON = "local"


class FromRow(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class RunSummary(FromRow):
    """One line of the list of runs. Times are UTC; step counts finished steps."""

    id: str
    name: str
    preset: str | None
    state: str
    state_since: datetime
    state_by: str | None
    state_why: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    heartbeat_at: datetime | None
    attempt: int
    worker: str | None
    step: int | None
    total_steps: int | None
    last_reward: float | None
    forwards_per_prompt: int | None
    phase: str | None
    phase_done: int | None
    phase_total: int | None
    seconds_per_step: float | None
    method: str = ""
    model: str = ""
    sparkline: list[float | None] = []


class RunDetail(RunSummary):
    """A run with its settings, the facts its trainer reported and the last lines of its log."""

    config: dict[str, Any]
    facts: dict[str, Any] | None
    log_tail: str | None


class CurvesOut(FromRow):
    steps: list[int]
    times: list[float]
    values: dict[str, list[float | None]]


class TreeKeyOut(FromRow):
    step: int
    prompt_index: int
    prompt: str
    complete: bool


class DepthOut(FromRow):
    step: int
    depth: int
    count: int
    advantage_mean: float | None
    advantage_std: float | None
    advantage_min: float | None
    advantage_max: float | None
    value_mean: float | None
    value_std: float | None


class SampleOut(FromRow):
    prompt_index: int
    prompt: str
    task: str | None
    seed: int
    sha256: str
    mime: str = ""
    width: int = 0
    height: int = 0
    poster: str | None = None
    scores: dict[str, float | None]


class EvaluationOut(FromRow):
    """reward_labels: what rewards that were fitted to votes were fitted to, in words."""

    step: int
    reward_labels: dict[str, str] = {}
    report: dict[str, Any]
    created_at: datetime


class CheckpointOut(FromRow):
    step: int
    path: str
    bytes: int
    created_at: datetime


class LaunchIn(BaseModel):
    """The settings of a run, as in its YAML file, and the preset they started from."""

    model_config = ConfigDict(extra="forbid")
    config: dict[str, Any]
    preset: str | None = None


class Launched(BaseModel):
    id: str


def part(config: dict[str, Any], group: str, name: str) -> str:
    """One setting as text, empty where the settings are of another shape."""
    value = config.get(group)
    return str(value.get(name, "")) if isinstance(value, dict) else ""


def detail(row: Any) -> RunDetail:
    record = RunDetail.model_validate(row)
    return record.model_copy(
        update={"method": part(record.config, "method", "name"), "model": part(record.config, "model", "base")}
    )


def found(read: Callable[[], Any]) -> Any:
    """What read returns; an unknown run, step or prompt becomes a 404 that says which."""
    try:
        return read()
    except LookupError as missing:
        raise HTTPException(404, str(missing.args[0]) if missing.args else "not found") from missing


@router.get("/runs")
def list_runs(
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: str | None = None,
    state: Annotated[list[str] | None, Query()] = None,
    search: Annotated[str, Query(max_length=200)] = "",
) -> list[RunSummary]:
    """Runs, newest first. before: the id of the last run of the previous page."""
    with reading() as session:
        rows = runs.listing(session, limit=limit, before=before, states=state or (), search=search)
        lines = metrics.sparkline(session, [row.id for row in rows], "train/reward_mean")
        return [
            RunSummary.model_validate(row).model_copy(
                update={
                    "method": part(row.config, "method", "name"),
                    "model": part(row.config, "model", "base"),
                    "sparkline": list(lines.get(row.id, [])),
                }
            )
            for row in rows
        ]


@router.get("/runs/{run_id}")
def one_run(run_id: str) -> RunDetail:
    with reading() as session:
        return detail(found(lambda: runs.get(session, run_id)))


@router.get("/runs/{run_id}/curves")
def curves(run_id: str, after: int = -1) -> CurvesOut:
    with reading() as session:
        return CurvesOut.model_validate(metrics.curves(session, run_id, after_step=after))


@router.get("/runs/{run_id}/curves.csv")
def curves_csv(run_id: str) -> Response:
    """Every step and metric, one row a step; an empty cell is a value that was not finite."""
    with reading() as session:
        found = metrics.curves(session, run_id, max_points=10_000_000)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["step", "time", *found.values])
    writer.writerows(zip(found.steps, found.times, *found.values.values(), strict=True))
    headers = {"Content-Disposition": f'attachment; filename="{run_id}.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=headers)


@router.get("/runs/{run_id}/trees")
def tree_index(run_id: str) -> list[TreeKeyOut]:
    with reading() as session:
        return [TreeKeyOut.model_validate(key) for key in trees.index(session, run_id)]


@router.get("/runs/{run_id}/trees/{step}/{prompt_index}")
def one_tree(run_id: str, step: int, prompt_index: int) -> dict[str, Any]:
    """The tree exactly as the trainer drew it: a TreeDrawn event."""
    with reading() as session:
        return found(lambda: trees.get(session, run_id, step, prompt_index))


@router.get("/runs/{run_id}/depths")
def depths(run_id: str) -> list[DepthOut]:
    with reading() as session:
        return [DepthOut.model_validate(row) for row in trees.depth_statistics(session, run_id)]


@router.get("/runs/{run_id}/samples/{collection}")
def sample_steps(run_id: str, collection: str) -> list[int]:
    with reading() as session:
        return samples.steps(session, run_id, collection)


@router.get("/runs/{run_id}/samples/{collection}/{step}")
def samples_at(run_id: str, collection: str, step: int) -> list[SampleOut]:
    with reading() as session:
        rows = samples.at(session, run_id, collection, step)
        media = artifacts.several(session, [row.sha256 for row in rows])
        return [SampleOut.model_validate(row).model_copy(update=shape(media[row.sha256])) for row in rows]


def shape(media: Any) -> dict[str, Any]:
    """What a page must know of a file before it is there: how large it is, and a video's still."""
    return {name: getattr(media, name) for name in ("mime", "width", "height", "poster")}


@router.get("/runs/{run_id}/evaluations")
def evaluation_list(run_id: str) -> list[EvaluationOut]:
    with reading() as session:
        rows = evaluations.listing(session, run_id)
        told = {"reward_labels": learned_rewards.labels(runs.get(session, run_id).config)} if rows else {}
        return [EvaluationOut.model_validate(row).model_copy(update=told) for row in rows]


@router.get("/runs/{run_id}/checkpoints")
def checkpoint_list(run_id: str) -> list[CheckpointOut]:
    with reading() as session:
        return [CheckpointOut.model_validate(row) for row in checkpoints.listing(session, run_id)]


@router.post("/runs", status_code=201)
def launch(body: LaunchIn) -> Launched:
    """Queues a run. 422 names every field that is wrong, its value and the remedy."""
    from backend.config import RunConfig
    from workers import queue

    try:
        config = RunConfig.model_validate(body.config)
    except ValidationError as invalid:
        raise HTTPException(422, [problem.model_dump() for problem in problems_of(invalid)]) from invalid
    try:
        config.model.check_access()
    except ValueError as error:
        problem = Problem(field="model.base", text=str(error).removeprefix("model.base: "))
        raise HTTPException(422, [problem.model_dump()]) from error
    if wrong := prompts_of(config)[1]:
        raise HTTPException(422, [problem.model_dump() for problem in wrong])
    return Launched(id=queue.launch(config, body.preset, PERSON))


@router.post("/runs/{run_id}/stop")
def stop(run_id: str) -> RunDetail:
    """Asks the run to save a checkpoint and leave. It is `stopping` until its processes are gone."""
    from workers import queue

    return act(run_id, queue.stop)


@router.post("/runs/{run_id}/resume")
def resume(run_id: str) -> RunDetail:
    """Queues the run again, to go on from its last checkpoint."""
    from workers import queue

    return act(run_id, queue.resume)


def act(run_id: str, action: Callable[[str, str], Any]) -> RunDetail:
    found(lambda: one_run(run_id))
    try:
        action(run_id, PERSON)
    except ValueError as refused:
        raise HTTPException(409, str(refused)) from refused
    return one_run(run_id)
