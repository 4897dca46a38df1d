"""Offline training: groups collected from the bundled base, and runs that train on them."""

import pytest
import torch
from safetensors.torch import load_file

from backend import checkpoint, collect, config, plan, train
from backend.device import pick
from backend.events import RunEnded, RunStarted, StepDone, TreeDrawn
from backend.groups import Groups

SMALL = [
    "steps=4",
    "sampling.steps=4",
    "sampling.evaluation_steps=4",
    "method.group_size=4",
    "method.train_timesteps=2",
    "prompts.per_step=2",
    "evaluation.limit=6",
    "evaluation.seeds=[1]",
    "evaluation.shown=6",
]


def small(*more):
    return config.load(config.preset_path("shapes-dgpo"), [*SMALL, *more])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five groups of four samples of the base."""
    return collect.collect(small(), tmp_path_factory.mktemp("data") / "groups", 5)


def run(settings, run_dir, stop=lambda: False, resume=False):
    run_dir.mkdir(exist_ok=True)
    seen = []
    return train.train(settings, run_dir, seen.append, stop, resume), seen


def test_what_is_stored_is_what_a_rollout_samples(folder, tmp_path):
    trainer = train.Trainer(small(), tmp_path, small().model.load(pick(), 0), emit=lambda event: None)
    rollouts = [trainer.roll_out(step, train.Clock()) for step in range(3)]
    stored = Groups(folder, small().rewards)
    assert stored.shape == (5, 4, 8, 8, 8)
    assert stored.notes.prompts == tuple(prompt for one in rollouts for prompt in one.prompts)[:5]
    assert torch.equal(stored.rewards, torch.cat([one.rewards for one in rollouts])[:5])
    assert torch.equal(stored._leaves[:], torch.cat([one.states[-1] for one in rollouts])[:5])
    assert stored.notes.made["checkpoint"] == "none, the base"


def test_a_run_on_stored_groups_samples_nothing_and_draws_no_tree(folder, tmp_path):
    outcome, seen = run(small(f"groups={folder}"), tmp_path / "run")
    assert outcome == "done"
    assert next(one for one in seen if isinstance(one, RunStarted)).forwards_per_prompt == 0
    assert not any(isinstance(one, TreeDrawn) for one in seen)
    rewards = Groups(folder, small().rewards)
    steps = [one.metrics for one in seen if isinstance(one, StepDone)]
    expected = [rewards.rewards[rewards.indices(0, step, 2)].mean() for step in range(4)]
    assert [metrics["train/reward_mean"] for metrics in steps] == pytest.approx([float(one) for one in expected])
    assert all(metrics["train/reward_shapes"] == metrics["train/reward_mean"] for metrics in steps)
    assert all(metrics["train/grad_norm"] > 0 for metrics in steps)


def test_resuming_on_stored_groups_is_exact(folder, tmp_path):
    settings = small(f"groups={folder}")
    run(settings, tmp_path / "whole")
    done = []
    (tmp_path / "parts").mkdir()
    outcome = train.train(
        settings,
        tmp_path / "parts",
        lambda event: done.append(event) if isinstance(event, StepDone) else None,
        stop=lambda: len(done) >= 2,
        resume=False,
    )
    assert (outcome, checkpoint.latest(tmp_path / "parts").name) == ("stopped", "checkpoint-2")
    assert run(settings, tmp_path / "parts", resume=True)[0] == "done"
    whole, parts = (load_file(tmp_path / name / "checkpoint-4" / checkpoint.WEIGHTS) for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_run_that_needs_larger_groups_fails_with_the_remedy(folder, tmp_path):
    outcome, seen = run(small(f"groups={folder}", "method.group_size=6"), tmp_path / "run")
    assert outcome == "failed"
    assert isinstance(seen[-1], RunEnded)
    assert "4 samples a group and the method needs 6; set method.group_size to at most 4" in seen[-1].what


def test_methods_on_trajectories_cannot_use_stored_groups():
    with pytest.raises(ValueError, match=r"groups: branchgrpo trains on the steps of its own rollout.*\(got 'x'\)"):
        config.load(config.preset_path("shapes-branchgrpo"), ["groups=x"])


def test_the_plan_of_stored_groups_has_no_rollout():
    report = plan.describe(small("groups=x"))
    assert (report.forwards_per_prompt, report.forwards_per_step) == (0, 0)
    assert report.samples_per_step == 8
    assert report.latent_bytes_per_step == 8 * 512 * 4
    assert "0 forwards in the rollout" in plan.words(report)


def test_the_command_collects_into_the_folder_of_the_config_and_never_twice(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text(config.dump(small(f"groups={tmp_path / 'set'}")))
    assert collect.main([str(file), "--groups", "1", "--half"]) == 0
    assert "1 groups in" in capsys.readouterr().out
    stored = Groups(tmp_path / "set", small().rewards)
    assert stored.shape == (1, 4, 8, 8, 8)
    assert stored._leaves[:].dtype == torch.float16
    assert collect.main([str(file), "--groups", "1"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert collect.main([str(config.preset_path("shapes-dgpo")), "--groups", "1"]) == 2
    assert "name a folder" in capsys.readouterr().err


def test_a_checkpoint_collects_its_own_samples(folder, tmp_path):
    run(small("steps=1", "optimizer.learning_rate=1e-2"), tmp_path / "run")
    tuned = collect.collect(small(), tmp_path / "set", 2, tmp_path / "run" / "checkpoint-1")
    stored, base = Groups(tuned, small().rewards), Groups(folder, small().rewards)
    assert stored.notes.prompts == base.notes.prompts[:2]
    assert not torch.equal(stored._leaves[:], base._leaves[:2])
    assert stored.notes.made["checkpoint"].endswith("checkpoint-1")
