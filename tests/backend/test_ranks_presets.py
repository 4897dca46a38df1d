"""Presets on two processes: the gradient of a reward (ReFL), and training on groups that were stored before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from backend import checkpoint, collect, config, events, groups
from backend.config import RunConfig
from backend.preferences import judged_folder
from backend.shapes import render
from backend.shapes.prompts import parse
from backend.votes_config import on_votes
from tests.backend.preferences.test_decided import A, B, archive_of
from tests.backend.test_ranks import MINUTES, alone, assert_same_weights, steps, weights
from tests.backend.two_processes import launch

REDUCED = [
    "steps=2",
    "model.tuning={kind: lora, rank: 4, alpha: 8}",
    "sampling.steps=4",
    "sampling.evaluation_steps=2",
    "prompts.per_step=2",
    "evaluation={limit: 1, seeds: [1], shown: 1}",
    # with the usual epsilon AdamW takes a whole step wherever a gradient is nothing but rounding; at a rate of 1e-2
    # the first step of ReFL overshoots, and the second has rounding of 1e-4 of its gradient
    "optimizer={learning_rate: 3.0e-3, epsilon: 1.0e-3}",
    "logging={checkpoint_every: 1, samples_every: 10}",
]
RUNS = ["refl", "refl_near_the_base", "stored", "judged"]


def votes_in(folder: Path) -> Path:
    """Four pairs on which people chose the picture that was drawn for the prompt, over one of another prompt."""
    rng = np.random.default_rng(0)
    for name, text in ((A, "a red circle"), (B, "a blue square")):
        Image.fromarray(render.draw(render.place(parse(text), rng))).save(folder / f"{name}.png")
    archive = archive_of([[("left", True, False)]] * 4)
    pairs = [pair.model_copy(update={"prompt": "a red circle"}) for pair in archive.pairs]
    archive = archive.model_copy(update={"pairs": pairs})
    return judged_folder.write(folder / "votes", archive, lambda name: folder / f"{name}.png")


def reduced(preset: str, *more: str) -> RunConfig:
    return config.load(config.preset_path(preset), [*REDUCED, *more])


def configs(folder: Path) -> dict[str, RunConfig]:
    """The runs by name, with what two of them train on made in folder."""
    dgpo = ["method.group_size=4", "method.train_timesteps=2", "method.micro_batch=4"]
    stored = folder / "groups"
    sampled = folder / "sampled.yaml"
    sampled.write_text(config.dump(reduced("shapes-dgpo-offline", *dgpo, f"groups={stored}")))
    assert collect.main([str(sampled), "--groups", "4"]) == 0
    judged = config.dump(on_votes("dpo", votes_in(folder), 2, "judged", {}, ()))
    near = ["method.group_size=2", "method.kl_weight=0.5", "method.margin=0.9", "method.micro_batch=3"]
    return {
        "refl": reduced("shapes-refl", "method.group_size=2", "rewards=[{name: nearest_truth, truths: 32}]"),
        "refl_near_the_base": reduced("shapes-refl", *near, "rewards=[{name: nearest_truth, truths: 32}]"),
        "stored": config.load(sampled),
        "judged": config.read(judged, REDUCED),
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[RunConfig, Path, Path]]:
    """Of a run: its config, an empty folder for one process, and the folder that two processes have trained it in."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    found = configs(tmp_path_factory.mktemp("data"))
    for name in RUNS:
        (two / f"{name}.yaml").write_text(config.dump(found[name]))
    launch(two)
    return lambda name: (found[name], one / name, two / name)


@MINUTES
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_have_the_losses_and_weights_of_one(
    both: Callable[[str], tuple[RunConfig, Path, Path]], name: str
) -> None:
    settings, one, two = both(name)
    seen, told = alone(settings, one), events.read(two / "events.jsonl")
    assert told[-1].outcome == "done"
    for found, expected in zip(steps(told), steps(seen), strict=True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert found["train/grad_norm"] > 1e-3
    assert_same_weights(weights(two, 2), weights(one, 2))
    moved = [(value - weights(one, 1)[key]).abs().max() for key, value in weights(one, 2).items()]
    assert max(moved) > 1e-3
    assert checkpoint.latest(two).name == "checkpoint-2"


def test_pairs_that_people_judged_are_encoded_once_for_both(
    both: Callable[[str], tuple[RunConfig, Path, Path]],
) -> None:
    _, _, two = both("judged")
    assert groups.Groups(two / "groups", ()).shape == (4, 2, 8, 8, 8)
