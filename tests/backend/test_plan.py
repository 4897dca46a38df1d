import json

import pytest

from backend import config, plan

DENSE = ["sampling.steps=20", "method.split_steps=[0,3,6,9]"]


def described(*overrides):
    return plan.describe(config.load(config.preset_path("shapes-branchgrpo"), list(overrides)))


def test_dense_tree_costs_203_forwards_a_prompt():
    report = described(*DENSE)
    assert report.forwards_per_prompt == 203
    assert report.forwards_if_independent == 320
    assert report.num_leaves == 16
    assert report.edges == 218
    assert report.trained_edges == 202  # all but the 16 of the last step, which is deterministic
    assert [level.nodes for level in report.levels] == [1, *[2] * 3, *[4] * 3, *[8] * 3, *[16] * 10]


def test_pruning_lowers_trained_edges_and_nothing_else():
    whole = described(*DENSE)
    top = described(*DENSE, "method.pruning={kind: parent_top1}")
    depth = described(*DENSE, "method.pruning={kind: depth}")
    # Parent-Top1: 138 edges of the paper's count less 8 on the deterministic last step
    assert top.trained_edges == 130
    # window of 4 depths from the last split's on: depths 10 to 13 of 16 edges each
    assert depth.trained_edges == 202 - 64
    assert whole.forwards_per_prompt == top.forwards_per_prompt == depth.forwards_per_prompt


def test_mix_trains_splits_and_window_only():
    report = described(*DENSE, "method.mix={window: 4}")
    # steps 0-3 (window) with 2, 2, 2, 4 children, and the splits at 6 and 9 with 8 and 16
    assert [level.step for level in report.levels if level.rate > 0] == [0, 1, 2, 3, 6, 9]
    assert report.trained_edges == 2 + 2 + 2 + 4 + 8 + 16


@pytest.mark.parametrize(
    ("preset", "overrides", "old", "theta"),
    [
        # V-GRPO on FLUX: 16 steps and 4 pairs (paper 16+4/4), but the first of 4 updates needs no old surrogate
        ("shapes-vgrpo", ["sampling.steps=16", "method.updates_per_rollout=4", "method.clip_range=0.01"], 16 + 3, 4),
        # DGPO: 10 steps, base and old weights at each of 4 levels
        ("shapes-dgpo", ["sampling.steps=10"], 10 + 8, 4),
        # DiffusionNFT: 40 steps, of which 39 levels are trained, with old and base weights
        ("shapes-nft", ["sampling.steps=40"], 40 + 2 * 39, 39),
        # Diffusion-DPO trains 2 of 16 samples, at 4 levels
        ("shapes-dpo", ["sampling.steps=40"], 40 + 0.5, 0.5),
        ("shapes-dancegrpo", ["sampling.steps=16"], 16, 9),  # int(0.6 * 15) of 16 steps
    ],
)
def test_evaluations_of_a_sample_are_those_that_papers_count(preset, overrides, old, theta):
    report = plan.describe(config.load(config.preset_path(preset), overrides))
    assert (report.nfe_old, report.nfe_theta) == (old, theta)
    assert report.training_forwards == theta * 16


def test_guidance_doubles_the_forwards_of_a_step():
    assert described("model.guidance=2").forwards_per_step == 2 * described("model.guidance=1").forwards_per_step


def test_samples_and_memory_are_multiples_of_the_tree():
    report = described(*DENSE, "prompts.per_step=3", "steps=10")
    assert report.samples_per_step == 48
    assert report.total_samples == 480
    # 219 nodes of 8 x 8 x 8 float32 latents for each of 3 prompts
    assert report.latent_bytes_per_step == 3 * 219 * 512 * 4


def test_command_prints_json_and_refuses_nonsense(capsys):
    preset = str(config.preset_path("shapes-branchgrpo"))
    assert plan.main([preset, "--json", "--set", DENSE[0], "--set", DENSE[1]]) == 0
    assert json.loads(capsys.readouterr().out)["forwards_per_prompt"] == 203
    assert plan.main([preset]) == 0
    assert "leaves a prompt" in capsys.readouterr().out
    assert plan.main([preset, "--set", "method.branches=1"]) == 2
    assert "method.branches" in capsys.readouterr().err


@pytest.mark.parametrize("name", config.preset_names())
def test_every_preset_can_be_planned(name):
    assert plan.describe(config.load(config.preset_path(name))).samples_per_step > 0
