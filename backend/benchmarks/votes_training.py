"""`espalier bench votes-training`: what votes of a reviewer who errs now and then are worth on Shapes.

The base samples two pictures for each of many training prompts, a simulated reviewer judges them, and a run trains on
the votes through the same folder, encoding and settings as votes of people. Each seed draws its own prompts, pictures,
errors and training noise; the held-out prompts are those of every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
from torch import Tensor

from backend import media
from backend.benchmarks import learning
from backend.config import RunConfig, dump, override, parse
from backend.device import pick
from backend.evaluate import Item, generate
from backend.preferences import judged_folder
from backend.preferences.archive import (
    Archive,
    ArchivedModel,
    ArchivedPair,
    ArchivedReviewer,
    ArchivedShowing,
    ArchivedVote,
    SetSettings,
)
from backend.shapes.reviewer import Choice, Reviewer
from backend.votes_config import Method, on_votes, steps_for
from backend.worlds import SHAPES

TOGETHER = 60
FIRST, SECOND = "first", "second"
PROMPT_SEED = 4000
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Sampled:
    """Both pictures of some prompts: frames [N, 1, 3, H, W] each, and what the reviewer chose, N answers."""

    prompts: list[str]
    left: Tensor
    right: Tensor
    choices: list[Choice]


def judged_pairs(config: RunConfig, seed: int, error: float) -> Iterator[Sampled]:
    """Endless batches of training prompts with two pictures of the base each, judged; functions of seed and place."""
    policy = config.model.load(pick(), 0)
    many = config.prompts.model_copy(update={"per_step": TOGETHER})
    rng, reviewer, place = np.random.default_rng([seed, 0]), Reviewer(error), 0
    while True:
        prompts = [prompt.text for prompt in many.batch(PROMPT_SEED + seed, place)]
        items = [Item(place * TOGETHER + i, text, "", 2 * seed + PROMPT_SEED) for i, text in enumerate(prompts)]
        left = generate(policy, items, config)
        right = generate(policy, [replace(item, seed=item.seed + 1) for item in items], config)
        choices = reviewer.choose(SHAPES.shown(left), SHAPES.shown(right), prompts, rng)
        yield Sampled(prompts, left, right, choices)
        place += 1


def archive_of(config: RunConfig, folder: Path, num_votes: int, seed: int, error: float) -> Archive:
    """A review set with so many votes that choose a side, its pictures below `folder`."""
    pairs: list[ArchivedPair] = []
    choices: list[Choice] = []
    for sampled in judged_pairs(config, seed, error):
        for text, left, right, choice in zip(
            sampled.prompts, sampled.left, sampled.right, sampled.choices, strict=True
        ):
            images = [media.save_image(folder, frames[0]).sha256 for frames in (left, right)]
            pairs.append(_pair(len(pairs), text, *images))
            choices.append(choice)
            if sum(one in ("left", "right") for one in choices) == num_votes:
                return _archive(pairs, choices, seed)
    raise AssertionError("the batches are endless")


def _pair(place: int, text: str, first: str, second: str) -> ArchivedPair:
    return ArchivedPair(
        prompt_index=place,
        prompt=text,
        seed=0,
        model_a=FIRST,
        model_b=SECOND,
        image_a=first,
        image_b=second,
        kind="image",
    )


def _archive(pairs: list[ArchivedPair], choices: list[Choice], seed: int) -> Archive:
    return Archive(
        name=f"simulated votes, seed {seed}",
        owner="bench",
        created_at=EPOCH,
        settings=SetSettings(),
        seed=seed,
        models=[ArchivedModel(key=key, label=f"base, {key} sample") for key in (FIRST, SECOND)],
        pairs=pairs,
        reviewers=[ArchivedReviewer(pseudonym="simulated", created_at=EPOCH)],
        showings=[
            ArchivedShowing(
                pair=place,
                reviewer="simulated",
                ordinal=place,
                a_is_left=True,
                shown_at=EPOCH,
                votes=[ArchivedVote(choice=choice, created_at=EPOCH)],
            )
            for place, choice in enumerate(choices)
        ],
    )


def configured(method: Method, folder: Path, steps: int, seed: int, overrides: list[str]) -> RunConfig:
    """The run that the pages would make of the folder, with a seed and overrides."""
    data: dict[str, Any] = on_votes(method, folder, steps, f"{method} on votes", {}, ()).model_dump(mode="json")
    for assignment in [f"seed={seed}", *overrides]:
        override(data, assignment)
    return parse(data)


def run(options: argparse.Namespace) -> str:
    """Every seed and method; the tables. Raises RuntimeError when a run fails."""
    told = []
    folders = {}
    for seed in options.seeds:
        home = options.out / f"seed-{seed}-{options.votes}-{options.error:g}"
        config = configured("dpo", home, 1, seed, options.set)
        archive = archive_of(config, home, options.votes, seed, options.error)
        by_hash = {path.stem: path for path in (home / "media").rglob("*.png")}
        folders[seed] = judged_folder.write(home / "votes", archive, by_hash.__getitem__)
        told.append(f"seed {seed}: {len(archive.pairs)} pairs judged for {options.votes} votes that choose a side")
    for method in options.methods:
        outcomes = []
        for seed, folder in folders.items():
            home = folder.parent.parent / method
            home.mkdir()
            file = home / "config.yaml"
            config = configured(method, folder, options.steps or steps_for(options.votes), seed, options.set)
            file.write_text(dump(config), encoding="utf-8")
            outcomes.append(learning.run_seed(file, seed, home / "run", []))
        told += ["", f"### {method}, {options.votes} votes, error {options.error:g}", "", learning.table(outcomes)]
    return "\n".join(told)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--votes", type=int, default=500, help="that choose a side (default: %(default)s)")
    parser.add_argument("--error", type=float, default=0.1, help="share of choices that are wrong; 0.5 is a control")
    parser.add_argument("--methods", nargs="+", choices=get_args(Method), default=list(get_args(Method)))
    parser.add_argument("--steps", type=int, help="training steps (default: as many as the pages would choose)")
    parser.add_argument("--out", type=Path, default=Path("data/votes-training"), help="pictures, votes and run folders")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting")
