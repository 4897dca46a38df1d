"""Drawn trees: one deflated blob each, and a small table of statistics by depth."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from db.columns import clean
from db.models import Tree, TreeDepthStat
from db.upsert import upsert


@dataclass(frozen=True)
class TreeKey:
    step: int
    prompt_index: int
    prompt: str
    complete: bool


@dataclass(frozen=True)
class DepthStat:
    """Over all trees drawn at one step: edges into level `depth` (1..T) and values of its nodes. std: population."""

    step: int
    depth: int
    count: int
    advantage_mean: float
    advantage_std: float
    advantage_min: float
    advantage_max: float
    value_mean: float
    value_std: float


def put(session: Session, run_id: str, tree: dict[str, Any]) -> None:
    """Stores a tree as TreeDrawn.model_dump(mode="json") gives it, over an earlier one of the same step and prompt.

    Statistics are kept once the tree has its advantages; until then it is not complete.
    """
    step, prompt_index, complete = tree["step"], tree["prompt_index"], bool(tree["advantages"])
    row = {
        "run_id": run_id,
        "step": step,
        "prompt_index": prompt_index,
        "prompt": tree["prompt"],
        "complete": complete,
        "data": zlib.compress(json.dumps(clean(tree), allow_nan=False).encode()),
    }
    upsert(session, Tree, [row])
    key = {"run_id": run_id, "step": step, "prompt_index": prompt_index}
    session.execute(delete(TreeDepthStat).filter_by(**key))
    if complete:
        upsert(session, TreeDepthStat, [key | stat for stat in _depth_rows(tree["advantages"], tree["values"])])


def index(session: Session, run_id: str) -> list[TreeKey]:
    """The trees of a run, by step and prompt."""
    query = select(Tree.step, Tree.prompt_index, Tree.prompt, Tree.complete).where(Tree.run_id == run_id)
    return [TreeKey(*row) for row in session.execute(query.order_by(Tree.step, Tree.prompt_index))]


def get(session: Session, run_id: str, step: int, prompt_index: int) -> dict[str, Any]:
    """The tree as it was put. LookupError when there is none."""
    tree = session.get(Tree, (run_id, step, prompt_index))
    if tree is None:
        raise LookupError(f"run {run_id}: no tree was drawn at step {step} for prompt {prompt_index}")
    return json.loads(zlib.decompress(tree.data))


def depth_statistics(session: Session, run_id: str) -> list[DepthStat]:
    """By step and depth; the trees of one step are pooled."""
    rows = session.scalars(
        select(TreeDepthStat)
        .where(TreeDepthStat.run_id == run_id)
        .order_by(TreeDepthStat.step, TreeDepthStat.depth, TreeDepthStat.prompt_index)
    )
    return [
        _pool(step, depth, list(group)) for (step, depth), group in groupby(rows, key=lambda row: (row.step, row.depth))
    ]


def _depth_rows(advantages: list[list[float]], values: list[list[float]]) -> list[dict[str, Any]]:
    rows = []
    for depth, edges in enumerate(advantages, start=1):
        advantage_mean, advantage_std = _moments(edges)
        value_mean, value_std = _moments(values[depth])
        rows.append(
            {
                "depth": depth,
                "count": len(edges),
                "advantage_mean": advantage_mean,
                "advantage_std": advantage_std,
                "advantage_min": min(edges),
                "advantage_max": max(edges),
                "value_mean": value_mean,
                "value_std": value_std,
            }
        )
    return rows


def _moments(numbers: list[float]) -> tuple[float, float]:
    mean = sum(numbers) / len(numbers)
    return mean, math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers))


def _pool(step: int, depth: int, rows: list[TreeDepthStat]) -> DepthStat:
    counts = [row.count for row in rows]
    advantage_mean, advantage_std = _pool_moments(counts, [(row.advantage_mean, row.advantage_std) for row in rows])
    value_mean, value_std = _pool_moments(counts, [(row.value_mean, row.value_std) for row in rows])
    return DepthStat(
        step=step,
        depth=depth,
        count=sum(counts),
        advantage_mean=advantage_mean,
        advantage_std=advantage_std,
        advantage_min=min(row.advantage_min for row in rows),
        advantage_max=max(row.advantage_max for row in rows),
        value_mean=value_mean,
        value_std=value_std,
    )


def _pool_moments(counts: list[int], moments: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean and std of the union of groups: variance = mean of within-variances + variance of means, by count."""
    total = sum(counts)
    mean = sum(n * m for n, (m, _) in zip(counts, moments, strict=True)) / total
    variance = sum(n * (s**2 + (m - mean) ** 2) for n, (m, s) in zip(counts, moments, strict=True)) / total
    return mean, math.sqrt(variance)
