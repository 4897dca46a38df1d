"""Exact resume of methods that remember, and a run with two rewards, which tells of both."""

from __future__ import annotations

import pytest
import torch

from backend import checkpoint, train
from backend.events import EvaluationDone, RunEnded, StepDone

METHODS = {
    "ddpo": "method={name: ddpo, group_size: 2, min_count: 2, history: 4}",
    "dpok": "method={name: dpok, group_size: 2, updates_per_rollout: 2, value_learning_rate: 0.01}",
    "refl": "method={name: refl, group_size: 2, kl_weight: 0.1, micro_batch: 3}",
}
REWARDS = "rewards=[{name: nearest_truth, truths: 4}]"
SHORT = ("steps=3", "sampling.steps=3", "sampling.evaluation_steps=2", "prompts.per_step=2", "logging.tree_every=1")


@pytest.mark.parametrize("name", METHODS)
def test_three_steps_equal_two_and_a_resume_and_one(small, tmp_path, name):
    config = small(METHODS[name], REWARDS, *SHORT)
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    whole, parts = [], []
    assert train.train(config, tmp_path / "whole", whole.append, lambda: False, resume=False) == "done"
    steps = lambda: [one for one in parts if isinstance(one, StepDone)]  # noqa: E731
    assert train.train(config, tmp_path / "parts", parts.append, lambda: len(steps()) >= 2, resume=False) == "stopped"
    assert train.train(config, tmp_path / "parts", parts.append, lambda: False, resume=True) == "done"
    for one, other in zip((one for one in whole if isinstance(one, StepDone)), steps(), strict=True):
        timeless = [
            {k: v for k, v in each.metrics.items() if not k.startswith(("time/", "memory/"))} for each in (one, other)
        ]
        assert timeless[0] == timeless[1]
    from safetensors.torch import load_file

    ends = [load_file(tmp_path / folder / "checkpoint-3" / checkpoint.WEIGHTS) for folder in ("whole", "parts")]
    assert all(torch.equal(value, ends[1][key]) for key, value in ends[0].items())


def test_a_run_tells_of_each_of_two_rewards(small, tmp_path):
    rewards = "rewards=[{name: shapes, weight: 2}, {name: nearest_truth, weight: 0.5, truths: 4}]"
    seen = []
    config = small(rewards, *SHORT, "steps=1", "method.split_steps=[0]")
    assert train.train(config, tmp_path, seen.append, lambda: False, resume=False) == "done"
    assert isinstance(seen[-1], RunEnded)
    metrics = next(one.metrics for one in seen if isinstance(one, StepDone))
    total = 2 * metrics["train/reward_shapes"] + 0.5 * metrics["train/reward_nearest_truth"]
    assert metrics["train/reward_mean"] == pytest.approx(total, abs=1e-9)
    reports = [one.report for one in seen if isinstance(one, EvaluationDone)]
    assert [set(report["rewards"]) for report in reports] == [{"shapes", "nearest_truth"}] * 2
