"""Settings of runs on judged pairs."""

from pathlib import Path

import pytest

from backend.config import load, preset_path
from backend.evaluate import items_of
from backend.prompts.sources import held_out
from backend.votes_config import on_votes, steps_for

FOLDER = Path("data/votes/0")


@pytest.mark.parametrize("method", ["dpo", "dgpo"])
def test_a_run_takes_pairs_from_the_folder_and_starts_from_the_base(method):
    config = on_votes(method, FOLDER, 7, "mine", {}, set())
    assert (config.method.name, config.method.group_size) == (method, 2)
    assert (config.groups, config.steps, config.name) == (str(FOLDER), 7, "mine")
    assert config.evaluation.leave_out == ()


def test_the_reference_of_dpo_stays_the_base():
    assert on_votes("dpo", FOLDER, 7, "mine", {}, set()).method.sync_reference_every == 0


def test_model_grid_evaluation_and_rewards_are_those_of_the_judged_run():
    judged = load(
        preset_path("shapes-branchgrpo"),
        ["model.guidance=2", "sampling.steps=11", "method.split_steps=[0,1]", "evaluation.seeds=[5]", "seed=9"],
    ).model_copy(update={"steps": 99})
    config = on_votes("dpo", FOLDER, 7, "mine", judged.model_dump(mode="json"), set())
    assert (config.model, config.sampling, config.rewards) == (judged.model, judged.sampling, judged.rewards)
    assert config.evaluation.seeds == (5,)
    assert (config.steps, config.seed, config.method.name) == (7, 0, "dpo")


def test_prompts_that_are_trained_on_are_not_evaluated():
    listed = [prompt.text for prompt in held_out("shapes-test")]
    config = on_votes("dpo", FOLDER, 7, "mine", {}, {listed[0], listed[17], "a prompt of elsewhere"})
    assert config.evaluation.leave_out == (0, 17)
    places = {item.prompt_index for item in items_of(config)}
    assert places == set(range(len(listed))) - {0, 17}


def test_a_run_that_could_not_be_evaluated_is_refused():
    everything = {prompt.text for prompt in held_out("shapes-test")}
    with pytest.raises(ValueError, match="all held-out prompts were judged"):
        on_votes("dpo", FOLDER, 7, "mine", {}, everything)


def test_settings_of_another_version_are_named():
    with pytest.raises(ValueError, match="model: "):
        on_votes("dpo", FOLDER, 7, "mine", {"model": {"family": "sd9"}}, set())


def test_steps_grow_with_the_pairs():
    # 2.5 passes of 16 pairs a step: 500 * 2.5 / 16 = 78.1
    assert steps_for(500) == 79
    assert steps_for(16) == 10
