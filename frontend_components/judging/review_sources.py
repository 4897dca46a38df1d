"""Where the pairs of a review set come from: held-out samples of runs.

Models are compared on the same prompts and noise seeds; of one model, samples of one prompt on different seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from db import artifacts, runs, samples
from db.models import Run, Sample

if TYPE_CHECKING:
    from backend.preferences.schedule import Scheduled

COLLECTION = "test"
MOST_PAIRS = 50_000
RIGHT = 0.5  # of a strict score
VIDEO = "video/mp4"

Step = Annotated[int, Field(ge=0, description="An evaluated step; 0 is the base model")]
Item = tuple[int, int]  # prompt_index and seed
Samples = dict[Item, Sample]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Lowest(Strict):
    """The samples that score lowest under a reward."""

    reward: str = Field(min_length=1, max_length=200)
    count: int = Field(ge=1, le=MOST_PAIRS)


OnlyFailures = Annotated[
    Literal["failed"] | Lowest | None,
    Field(description="failed: only where the strict score says wrong; or the lowest under a reward; empty: all"),
]
Only = Annotated[
    Literal["broken", "fixed", "failed"] | Lowest | None,
    Field(
        description="broken, fixed: only where the strict score fell, or rose, from left to right; failed: only where "
        "it says that the right one is wrong; or the right ones that are lowest under a reward; empty: all"
    ),
]


class Comparison(Strict):
    """Two steps of one run."""

    kind: Literal["comparison"]
    run: str
    left: Step
    right: Step
    only: Only = None


class Prompts(Strict):
    """Two steps of one run, on some of the prompts: those of a file, one a line."""

    kind: Literal["prompts"]
    run: str
    left: Step
    right: Step
    prompts: list[str] = Field(min_length=1, max_length=20_000)
    only: Only = None


class RunStep(Strict):
    run: str
    step: Step


class Runs(Strict):
    """Any number of models with samples of the same prompts and seeds: all pairs of models, balanced."""

    kind: Literal["runs"]
    models: list[RunStep] = Field(min_length=2, max_length=50)


class Seeds(Strict):
    """One step of a run: samples of one prompt from different noises, every two of them.

    Votes on them say which of two samples is better, and nothing of models. only, prompts: prompts where one of the
    samples is such a failure; those of a file, one a line.
    """

    kind: Literal["seeds"]
    run: str
    step: Step
    prompts: list[str] | None = Field(None, min_length=1, max_length=20_000)
    only: OnlyFailures = None


Source = Annotated[Comparison | Prompts | Runs | Seeds, Field(discriminator="kind")]


class Drawn(BaseModel):
    """Rows for `db.reviews.create`."""

    models: list[dict[str, Any]]
    pairs: list[dict[str, Any]]


def draw(session: Session, source: Source, repeats: float, seed: int) -> Drawn:
    """The models of a source and its pairs in the order of handing out; equal seeds give equal draws.

    LookupError for an unknown run. ValueError, naming the field, where nothing can be compared.
    """
    wanted = _wanted(source)
    keys, rows = _models(session, wanted)
    found = {key: _samples(session, one) for key, one in zip(keys, wanted, strict=True)}
    if isinstance(source, Seeds):
        planned = _plan_seeds(keys[0], _seeds(found[keys[0]], source), repeats, seed)
    else:
        items = _shared(list(found.values()))
        if not isinstance(source, Runs):
            items = _chosen(items, source, *(found[key] for key in keys))
        planned = _plan(keys, items, repeats, seed)
    kinds = _kinds(session, {sample.sha256 for one in found.values() for sample in one.values()})
    return Drawn(models=rows, pairs=[_pair(one, found, kinds) for one in planned])


def _wanted(source: Source) -> list[RunStep]:
    if isinstance(source, Runs):
        return source.models
    if isinstance(source, Seeds):
        return [RunStep(run=source.run, step=source.step)]
    return [RunStep(run=source.run, step=source.left), RunStep(run=source.run, step=source.right)]


def _models(session: Session, wanted: Sequence[RunStep]) -> tuple[list[str], list[dict[str, Any]]]:
    """A key and a row of each. Step 0 of a run is its base model, which is "base" where there is one alone."""
    found = [runs.get(session, one.run) for one in wanted]
    bases = {_base(run) for run, one in zip(found, wanted, strict=True) if one.step == 0}
    names = {run.id: run.name for run in found}
    keys, rows = [], []
    for run, one in zip(found, wanted, strict=True):
        same_name = list(names.values()).count(run.name) > 1
        name = f"{run.name} ({run.id[-6:]})" if same_name else run.name
        if one.step == 0:
            key, label = ("base", "base") if len(bases) == 1 else (f"base {_base(run)}", f"base {_base(run)}")
        else:
            key, label = f"{run.id}:{one.step}", f"{name} step {one.step}"
        if key in keys:
            raise ValueError(f"source: {label} is there twice; name each model once (step 0 of any run is its base)")
        keys.append(key)
        rows.append({"key": key, "label": label, "run_id": run.id, "step": one.step})
    return keys, rows


def _base(run: Run) -> str:
    model = run.config.get("model")
    return str(model.get("base", run.id)) if isinstance(model, dict) else run.id


def _samples(session: Session, one: RunStep) -> Samples:
    found = {(row.prompt_index, row.seed): row for row in samples.at(session, one.run, COLLECTION, one.step)}
    if not found:
        steps = samples.steps(session, one.run, COLLECTION)
        told = f"it has them at steps {', '.join(map(str, steps))}" if steps else "it has none at any step"
        raise ValueError(f"source: run {one.run} has no held-out samples at step {one.step}; {told}")
    return found


def _shared(found: list[Samples]) -> list[Item]:
    """Prompts and seeds that every model has."""
    first, *others = found
    items = [
        item for item, row in first.items() if all(item in one and one[item].prompt == row.prompt for one in others)
    ]
    if not items:
        raise ValueError("source: the models have no prompt and seed in common; compare runs with the same evaluation")
    return items


def _chosen(items: list[Item], source: Comparison | Prompts, left: Samples, right: Samples) -> list[Item]:
    if isinstance(source, Prompts):
        items = _listed(items, source.prompts, left, "both sides have")
    if source.only in ("broken", "fixed"):
        sign = -1 if source.only == "broken" else 1
        items = [item for item in items if sign * (_strict(right[item]) - _strict(left[item])) > 0]
        if not items:
            raise ValueError(f"source.only: no prompt was {source.only} between these steps; leave it empty for all")
    elif source.only is not None:
        items = _failures(items, source.only, right)
    return items


def _seeds(found: Samples, source: Seeds) -> dict[int, list[int]]:
    """The noise seeds of each prompt that has two or more."""
    items = list(found)
    if source.prompts is not None:
        items = _listed(items, source.prompts, found, f"the run kept at step {source.step}")
    if source.only is not None:
        prompts = {prompt for prompt, _ in _failures(items, source.only, found)}
        items = [item for item in items if item[0] in prompts]
    seeds: dict[int, list[int]] = {}
    for prompt, seed in sorted(items):
        seeds.setdefault(prompt, []).append(seed)
    several = {prompt: own for prompt, own in seeds.items() if len(own) > 1}
    if not several:
        raise ValueError(
            f"source: run {source.run} kept one sample of each of these prompts at step {source.step}; pairs of one "
            "model need evaluation.shown_seeds of 2 or more in the run"
        )
    return several


def _listed(items: list[Item], prompts: Sequence[str], found: Samples, which: str) -> list[Item]:
    texts = {text.strip() for text in prompts}
    listed = [item for item in items if found[item].prompt in texts]
    if not listed:
        raise ValueError(f"source.prompts: none of them is among the held-out prompts that {which}")
    return listed


def _failures(items: list[Item], only: str | Lowest, found: Samples) -> list[Item]:
    """Items whose sample is wrong by its strict score, or those of the lowest scores under a reward, lowest first."""
    name = only.reward if isinstance(only, Lowest) else "strict"
    scores = {item: score for item in items if (score := found[item].scores.get(name)) is not None}
    if not scores:
        known = sorted({name for item in items for name in found[item].scores})
        raise ValueError(f"source.only: these samples have no score {name!r}; they have {', '.join(known) or 'none'}")
    if isinstance(only, Lowest):
        return sorted(scores, key=lambda item: (scores[item], item))[: only.count]
    failed = [item for item, score in scores.items() if score < RIGHT]
    if not failed:
        raise ValueError("source.only: every sample is right by its strict score; leave it empty for all")
    return failed


def _strict(sample: Sample) -> float:
    return sample.scores.get("strict") or 0.0


def _kinds(session: Session, hashes: set[str]) -> dict[str, str]:
    """image or video, by hash."""
    kinds = {}
    for sha256 in hashes:
        mime = artifacts.get(session, sha256).mime
        if not mime.startswith("image/") and mime != VIDEO:
            raise ValueError(f"source: media of type {mime} cannot be shown blind; use images or {VIDEO}")
        kinds[sha256] = "video" if mime == VIDEO else "image"
    return kinds


def _plan(keys: list[str], items: list[Item], repeats: float, seed: int) -> list[Scheduled]:
    """Over prompts times seeds where the samples are a full product, else over the items as they are."""
    from backend.preferences.schedule import schedule

    _limit(len(items) * len(keys) * (len(keys) - 1) // 2)
    rng = np.random.default_rng(seed)
    prompts, seeds = sorted({prompt for prompt, _ in items}), sorted({one for _, one in items})
    if len(items) == len(prompts) * len(seeds):
        return schedule(keys, prompts, seeds, repeats, rng)
    return [
        replace(one, prompt=items[one.prompt][0], seed=items[one.prompt][1])
        for one in schedule(keys, range(len(items)), [0], repeats, rng)
    ]


def _plan_seeds(key: str, seeds: dict[int, list[int]], repeats: float, seed: int) -> list[Scheduled]:
    from backend.preferences.schedule import schedule_seeds

    _limit(sum(len(own) * (len(own) - 1) // 2 for own in seeds.values()))
    return schedule_seeds(key, seeds, repeats, np.random.default_rng(seed))


def _limit(num_pairs: int) -> None:
    if num_pairs > MOST_PAIRS:
        raise ValueError(f"source: more than {MOST_PAIRS} pairs; compare fewer models or prompts")


def _pair(planned: Scheduled, found: dict[str, Samples], kinds: dict[str, str]) -> dict[str, Any]:
    a = found[planned.model_a][planned.prompt, planned.seed]
    b = found[planned.model_b][planned.prompt, planned.seed if planned.seed_b is None else planned.seed_b]
    if kinds[a.sha256] != kinds[b.sha256]:
        raise ValueError(f"source: prompt {a.prompt_index} is an image of one model and a video of the other")
    return {
        "prompt_index": a.prompt_index,
        "prompt": a.prompt,
        "task": a.task,
        "seed": a.seed,
        "seed_b": planned.seed_b,
        "model_a": planned.model_a,
        "model_b": planned.model_b,
        "sha_a": a.sha256,
        "sha_b": b.sha256,
        "kind": kinds[a.sha256],
        "scores_a": a.scores,
        "scores_b": b.scores,
        "repeat_of": planned.repeat_of,
        "flipped": planned.flipped,
    }
