import json

import numpy as np
import pytest
import torch

from backend import checkpoint, config, evaluate
from backend.device import pick
from backend.evaluate import Evaluated, Item


def evaluated(strict_by_task):
    """Two prompts a task, two seeds each, with the given strict values in the order prompt, seed."""
    items, strict = [], []
    for number, (task, values) in enumerate(strict_by_task.items()):
        for k, value in enumerate(values):
            items.append(Item(2 * number + k // 2, f"prompt {2 * number + k // 2}", task, k % 2))
            strict.append(value)
    scores = {"strict": np.array(strict), "quality": np.full(len(items), 0.5), "shapes": np.array(strict) / 2}
    return Evaluated(items, scores, range(len(items)), torch.zeros(len(items), 1, 3, 2, 2))


def test_overall_is_the_mean_of_task_means_not_of_samples():
    found = evaluate.report(evaluated({"a": [1, 1, 1, 1], "b": [0, 0, 0, 1, 0, 0, 0, 0]}), step=7)
    # task means 1 and 1/8; their mean is 0.5625, that of the samples would be 5/12
    assert found["strict_accuracy"]["tasks"]["b"]["mean"] == 0.125
    assert found["strict_accuracy"]["overall"]["mean"] == 0.5625
    assert found["rewards"]["shapes"]["mean"] == pytest.approx(0.5625 / 2)
    assert found["num_prompts"] == 6
    assert found["seeds"] == [0, 1]
    assert found["step"] == 7


def test_intervals_hold_the_mean_and_vanish_without_spread():
    found = evaluate.report(evaluated({"a": [1, 1, 0, 0], "b": [1, 1, 1, 1]}), step=0)["strict_accuracy"]
    assert found["tasks"]["a"]["low"] == 0.0  # both resampled prompts may be the wrong one
    assert found["tasks"]["a"]["high"] == 1.0
    assert found["tasks"]["b"] == {"mean": 1.0, "low": 1.0, "high": 1.0, "count": 4}
    assert found["overall"]["low"] <= 0.75 <= found["overall"]["high"]


def test_bootstrap_interval_agrees_with_the_binomial_one():
    rng = np.random.default_rng(0)
    items = [Item(i, "", "a", 0) for i in range(400)]
    strict = (rng.random(400) < 0.3).astype(float)
    scores = {"strict": strict, "quality": strict}
    found = evaluate.report(Evaluated(items, scores, range(400), torch.zeros(400)), 0)["strict_accuracy"]["overall"]
    half = 1.96 * np.sqrt(strict.mean() * (1 - strict.mean()) / 400)
    assert found["high"] - found["low"] == pytest.approx(2 * half, rel=0.1)


def test_generators_depend_on_every_part_of_their_place():
    draws = {
        float(torch.randn(1, generator=evaluate.generator(*place))) for place in [(0, 1), (1, 0), (0, 1, 0), (1, 1)]
    }
    assert len(draws) == 4
    assert torch.equal(
        torch.randn(3, generator=evaluate.generator(5, 2)), torch.randn(3, generator=evaluate.generator(5, 2))
    )


def test_limit_spreads_over_the_tasks(small):
    assert [item.task for item in evaluate.items_of(small())] == [
        "single_object", "two_object", "counting", "colors", "position", "color_attr",
    ]  # fmt: skip


def test_pictures_depend_on_prompt_and_seed_alone(small):
    run = small()
    policy = run.model.load(pick(), 0)
    items = evaluate.items_of(run)
    whole = evaluate.generate(policy, items, run)
    alone = evaluate.generate(policy, items[2:3], run)
    assert (whole[2] - alone[0]).abs().max() <= 1 / 255 + 1e-6


def test_command_reports_a_base_and_a_checkpoint(small, tmp_path, capsys):
    short = ["--set", "evaluation.limit=6", "--json"]
    assert evaluate.main(["--base", "shapes", "--prompts", "shapes-test", "--seed", "0", *short]) == 0
    base = json.loads(capsys.readouterr().out)
    assert set(base) >= {"strict_accuracy", "rewards", "quality"}
    assert set(base["strict_accuracy"]) == {"overall", "tasks"}

    run = small("sampling.evaluation_steps=6", "sampling.steps=6")
    policy = run.model.load(pick(), 0)
    optimizer = torch.optim.AdamW(policy.tuned.parameters())
    checkpoint.save(tmp_path, 3, policy, optimizer, None, config.dump(run))
    assert evaluate.main(["--checkpoint", str(tmp_path), "--seed", "0", *short]) == 0
    untrained = json.loads(capsys.readouterr().out)
    assert untrained.pop("step") == 3
    assert base.pop("step") == 0
    assert untrained == base


def test_command_explains_a_folder_without_checkpoints(tmp_path, capsys):
    assert evaluate.main(["--checkpoint", str(tmp_path)]) == 2
    assert "holds no complete checkpoint" in capsys.readouterr().err


def test_samples_that_were_not_judged_are_counted_and_left_out():
    nan = float("nan")
    found = evaluated({"a": [1, 1, 1, 1], "b": [1, 1, 1, 1]})
    scores = found.scores | {
        "some": np.array([2.0, nan, nan, nan, 4.0, 6.0, 5.0, 5.0]),
        "none": np.full(8, nan),
    }
    told = evaluate.report(Evaluated(found.items, scores, found.own, found.frames), step=0, held_out=["some"])
    # task a: its first prompt alone, 2; task b: prompts 5 and 5
    assert told["rewards"]["some"]["mean"] == pytest.approx(3.5)
    assert told["rewards"]["some"]["failed"] == 3
    assert told["rewards"]["none"] == {"mean": None, "low": None, "high": None, "failed": 8}
    assert "failed" not in told["rewards"]["shapes"]
    assert told["held_out"] == ["some"]
    assert "3 could not be judged" in evaluate._words(told)


def test_held_out_rewards_are_scored_and_not_trained_on(small):
    run = small("evaluation.rewards=[{name: nearest_truth, truths: 4}]")
    items = evaluate.items_of(run)
    scores = evaluate.score(torch.zeros(len(items), 1, 3, 64, 64), items, run)
    assert set(scores) == {"shapes", "nearest_truth", "strict", "quality"}
    assert run.evaluation.held_out == ["nearest_truth"]
    with pytest.raises(ValueError, match="shapes is there 2 times"):
        small("evaluation.rewards=[{name: shapes}]")
