"""Every family on two real processes: docs/models.md names these tests, a cell of its table each."""

from pathlib import Path

import pytest
import torch
import yaml

from backend import checkpoint, events
from backend.config import parse
from backend.train import train
from tests.backend.two_processes import launch

FAMILIES = ["sd3", "flux", "wan", "wan_image"]


def config_of(settings):
    return {
        "steps": 1,
        "model": settings.model_dump(mode="json"),
        "method": {"name": "dgpo", "group_size": 3, "solver": "euler", "micro_batch": 8, "train_timesteps": 2},
        "rewards": [{"name": "hook", "function": "tests.backend.two_processes:corner"}],
        "sampling": {"steps": 3, "evaluation_steps": 2},
        "prompts": {"source": "shapes-train", "per_step": 2},
        "evaluation": {"limit": 1, "seeds": [1], "shown": 0},
        # with the usual epsilon AdamW takes a whole step wherever a gradient is nothing but rounding
        "optimizer": {"learning_rate": 1e-2, "epsilon": 1e-3},
        "logging": {"samples_every": 10, "tree_every": 10},
    }


@pytest.fixture(scope="module")
def two(settings_of, tmp_path_factory) -> Path:
    """The folder of the runs on two processes, one a family."""
    folder = tmp_path_factory.mktemp("two")
    for family in FAMILIES:
        (folder / f"{family}.yaml").write_text(yaml.safe_dump(config_of(settings_of(family))))
    launch(folder)
    return folder


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("family", FAMILIES)
def test_two_processes_have_the_losses_and_weights_of_one(two, settings_of, tmp_path, family):
    from safetensors.torch import load_file

    seen = []
    assert train(parse(config_of(settings_of(family))), tmp_path, seen.append, lambda: False, resume=False) == "done"
    told = events.read(two / family / "events.jsonl")
    found, expected = (next(one.metrics for one in every if one.kind == "step_done") for every in (told, seen))
    names = [name for name in expected if not name.startswith(("time/", "memory/"))]
    assert [found[name] for name in names] == pytest.approx([expected[name] for name in names], rel=1e-4, abs=1e-5)
    assert found["train/grad_norm"] > 0
    ours, theirs = (load_file(run / "checkpoint-1" / checkpoint.WEIGHTS) for run in (two / family, tmp_path))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=1e-5)
