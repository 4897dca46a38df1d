"""Stored groups: what is written comes back, in an order that seed and step decide."""

import json

import pytest
import torch

from backend import groups
from backend.rewards.shapes import ShapesReward
from tests.backend.toy import Perceptron

NUM, SIZE, SHAPE = 5, 4, (2, 2)
SIGMAS = torch.linspace(1, 0, 4, dtype=torch.float64)


def notes(**changes):
    facts = {
        "prompts": tuple("a" * (i + 1) for i in range(NUM)),
        "base": "toy",
        "rewards": (ShapesReward().model_dump(mode="json"),),
        "made": {"device": "cpu"},
        "config": "name: x\n",
    }
    return groups.Notes(**(facts | changes))


@pytest.fixture
def folder(tmp_path):
    """Sample k of group n is the constant 10 n + k, and its stored reward is the same number."""
    numbers = 10.0 * torch.arange(NUM)[:, None] + torch.arange(SIZE)
    leaves = numbers[:, :, None, None].expand(NUM, SIZE, *SHAPE)
    return groups.save(tmp_path / "set", notes(), leaves, numbers.double(), {"shapes": numbers.double()})


def opened(folder, *rewards):
    return groups.Groups(folder, rewards or (ShapesReward(),))


def rolled(stored, step=0, seed=0, per_step=2, group_size=SIZE):
    return stored.rollout(Perceptron(), SIGMAS, seed, step, per_step, group_size)


def test_a_batch_brings_latents_rewards_and_prompts_of_the_same_groups(folder):
    found = rolled(opened(folder))
    assert found.rewards.dtype == torch.float64
    assert found.states[0].shape == (2, SIZE, *SHAPE)
    assert torch.equal(found.states[0].mean((2, 3)).double(), found.rewards)
    assert torch.equal(found.parts["shapes"], found.rewards)
    # group n has the prompt of n + 1 letters, and Lengths is a tenth of them
    numbers = found.rewards[:, 0] // 10
    assert [len(prompt) - 1 for prompt in found.prompts] == numbers.tolist()
    assert torch.equal(found.cond.rows, (numbers + 1) / 10)


def test_a_stored_group_is_a_flat_group_of_which_only_the_leaves_are_known(folder):
    plan = rolled(opened(folder)).plan
    assert plan.widths == [SIZE] * 4
    assert plan.keep == "last"
    assert not any(plan.noisy(step).any() for step in range(plan.num_steps))
    assert torch.equal(plan.sigmas, SIGMAS)


def test_every_group_is_seen_once_before_one_comes_again(folder):
    stored = opened(folder)
    # steps of 2 out of 5 groups: places 0..9 are two passes, and step 2 lies in both
    places = [index for step in range(5) for index in stored.indices(seed=3, step=step, per_step=2)]
    assert sorted(places[:5]) == sorted(places[5:]) == list(range(5))
    assert places[:5] != places[5:]


def test_a_step_depends_on_seed_and_step_alone(folder):
    stored, again = opened(folder), opened(folder)
    rolled(stored, step=0)
    assert torch.equal(rolled(stored, step=7).rewards, rolled(again, step=7).rewards)
    orders = {tuple(stored.indices(seed, 0, 5)) for seed in range(6)}
    assert len(orders) > 3


def test_smaller_groups_are_drawn_from_larger_ones_without_repeats(folder):
    stored = opened(folder)
    seen = set()
    for step in range(40):
        found = rolled(stored, step, group_size=2)
        assert torch.equal(found.states[0].mean((2, 3)).double(), found.rewards)
        members = found.rewards % 10
        assert (members[:, 0] < members[:, 1]).all()
        seen |= {tuple(pair) for pair in members.int().tolist()}
    assert len(seen) == 6  # 4 choose 2


def test_the_total_follows_the_weights_of_the_run(folder):
    once, twice = opened(folder), opened(folder, ShapesReward(weight=2))
    assert torch.equal(twice.rewards, 2 * once.rewards)
    assert rolled(twice).part_weights == {"shapes": 2}
    assert torch.equal(rolled(twice).parts["shapes"], rolled(once).parts["shapes"])


def test_people_judge_without_parts_and_their_numbers_stay(tmp_path):
    judged = torch.tensor([[1.0, 0.0]] * NUM, dtype=torch.float64)
    leaves = torch.zeros(NUM, 2, *SHAPE)
    folder = groups.save(tmp_path / "set", notes(rewards=()), leaves, judged, {})
    found = rolled(opened(folder, ShapesReward(weight=3)), group_size=2)
    assert torch.equal(found.rewards, judged[:2])
    assert (found.parts, found.part_weights) == ({}, {})


def test_half_precision_is_read_as_float32(tmp_path):
    leaves = torch.full((NUM, 2, *SHAPE), 1 / 3)
    rewards = torch.zeros(NUM, 2, dtype=torch.float64)
    folder = groups.save(tmp_path / "set", notes(), leaves.half(), rewards, {"shapes": rewards})
    found = rolled(opened(folder), group_size=2).states[0]
    assert found.dtype == torch.float32
    assert found.flatten()[0] == torch.tensor(1 / 3).half().float()


def test_a_reward_under_other_settings_or_not_stored_is_refused(folder):
    with pytest.raises(ValueError, match="other settings than this run's"):
        opened(folder, ShapesReward(strict_share=0.25))
    text = json.loads((folder / groups.NOTES).read_text())
    text["rewards"] = [{"name": "other", "weight": 1.0}]
    (folder / groups.NOTES).write_text(json.dumps(text))
    with pytest.raises(ValueError, match=r"'shapes' is not stored in .*, which has other"):
        opened(folder)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("sd3", SHAPE, SIZE, 2), r"model\.base 'toy', and this run trains 'sd3'"),
        (("toy", (2, 3), SIZE, 2), r"are \[2, 2\], those of the model \[2, 3\]"),
        (("toy", SHAPE, 5, 2), r"4 samples a group and the method needs 5; set method\.group_size to at most 4"),
        (("toy", SHAPE, SIZE, 6), r"5 groups, fewer than prompts\.per_step = 6"),
    ],
)
def test_groups_that_do_not_fit_the_run_are_refused(folder, given, message):
    stored = opened(folder)
    stored.check("toy", SHAPE, SIZE, 5)
    with pytest.raises(ValueError, match=message):
        stored.check(*given)


def test_a_torn_or_missing_folder_is_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="espalier collect CONFIG --out"):
        opened(tmp_path / "none")
    file = folder / groups.TENSORS
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match="missing or changed on disk"):
        opened(folder)


def test_nothing_is_overwritten_and_no_half_folder_stays(folder, tmp_path):
    leaves, rewards = torch.zeros(NUM, SIZE, *SHAPE), torch.zeros(NUM, SIZE)
    with pytest.raises(ValueError, match="already exists"):
        groups.save(folder, notes(), leaves, rewards, {})
    with pytest.raises(ValueError, match=r"shapes is \[5, 3\] for leaves \[5, 4, 2, 2\]"):
        groups.save(tmp_path / "other", notes(), leaves, rewards, {"shapes": rewards[:, 1:]})
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
