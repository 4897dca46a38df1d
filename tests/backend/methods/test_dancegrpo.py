"""DanceGRPO: a flat group, advantages by hand, and which steps are trained."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from backend import flow
from backend.methods.dancegrpo import DanceGRPO
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(16, 3.0)


def rolled(method: DanceGRPO) -> Rollout:
    return sampled(Perceptron(), method.plan(0, SIGMAS), ("a", "bcdef"))


def test_the_plan_is_group_size_chains_from_one_noise() -> None:
    plan = DanceGRPO().plan(0, SIGMAS)
    assert plan.widths == [12] * 17
    assert plan.forwards_per_prompt == 12 * 16
    assert plan.rates.tolist() == [0.3] * 15 + [0.0]
    roots = rolled(DanceGRPO()).states[0]
    assert torch.equal(roots, roots[:, :1].expand_as(roots))
    apart = rolled(DanceGRPO(shared_noise=False)).states[0]
    assert len(apart[0].flatten(1).unique(dim=0)) == 12


def test_advantages_are_the_groups_z_scores_at_every_step() -> None:
    method = DanceGRPO(group_size=3)
    rollout = replace(rolled(method), rewards=torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 3.0]]).double())
    expected = torch.tensor([[-1.0, 0.0, 1.0], [-(3**-0.5), -(3**-0.5), 2 * 3**-0.5]]).double()  # stds 1 and sqrt 3
    credit = method.credit(rollout, 0)
    for advantage in credit.advantages:
        torch.testing.assert_close(advantage, expected, rtol=0, atol=1e-7)
    for value in credit.values:
        assert torch.equal(value, rollout.rewards)


@pytest.mark.parametrize(("fraction", "per_sample"), [(0.6, 9), (1.0, 15), (0.07, 1)])
def test_each_sample_trains_its_share_of_the_stochastic_steps(fraction: float, per_sample: int) -> None:
    method = DanceGRPO(timestep_fraction=fraction)
    keep = torch.stack(method.credit(rolled(method), 5).keep)
    assert keep.sum(0).tolist() == [[per_sample] * 12] * 2
    assert not keep[-1].any()


def test_the_share_is_drawn_for_each_sample_and_training_step_alone() -> None:
    method = DanceGRPO()
    rollout = rolled(method)
    keep = [torch.stack(method.credit(rollout, step).keep) for step in (5, 5, 6)]
    assert torch.equal(keep[0], keep[1])
    assert not torch.equal(keep[0], keep[2])
    assert len(keep[0].flatten(1).T.unique(dim=0)) > 20  # of 24 samples
    drawn = torch.stack([torch.stack(method.credit(rollout, step).keep)[:-1] for step in range(200)])
    torch.testing.assert_close(drawn.double().mean((0, 2, 3)), torch.full((15,), 0.6).double(), rtol=0, atol=0.03)


def test_best_of_trains_the_best_and_the_worst_half_with_advantages_of_the_whole_group() -> None:
    method = DanceGRPO(group_size=6, best_of=4, timestep_fraction=1.0)
    rewards = torch.tensor([[3.0, 0.0, 5.0, 2.0, 4.0, 1.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]).double()
    rollout = replace(rolled(method), rewards=rewards)
    credit = method.credit(rollout, 0)
    kept = torch.tensor([[False, True, True, False, True, True], [True, True, False, False, True, True]])
    for keep in credit.keep[:-1]:
        assert torch.equal(keep, kept)
    assert not credit.keep[-1].any()
    whole = DanceGRPO(group_size=6, timestep_fraction=1.0).credit(rollout, 0)
    assert torch.equal(credit.advantages[0], whole.advantages[0])
    everyone = DanceGRPO(group_size=6, best_of=6, timestep_fraction=1.0).credit(rollout, 0)
    assert all(torch.equal(one, other) for one, other in zip(everyone.keep, whole.keep, strict=True))


def test_best_of_keeps_its_number_of_samples_when_rewards_are_equal() -> None:
    method = DanceGRPO(group_size=6, best_of=2, timestep_fraction=1.0)
    rollout = replace(rolled(method), rewards=torch.ones(2, 6).double())
    assert method.credit(rollout, 0).keep[0].sum(1).tolist() == [2, 2]


def test_advantages_over_all_samples_compare_prompts() -> None:
    """0 2 and 4 6: mean 3, squared deviations 9 1 1 9, variance 20 / 3."""
    method = DanceGRPO(group_size=2, advantage_mode="all")
    rollout = replace(rolled(method), rewards=torch.tensor([[0.0, 2.0], [4.0, 6.0]]).double())
    expected = torch.tensor([[-3.0, -1.0], [1.0, 3.0]]).double() / (20 / 3) ** 0.5
    torch.testing.assert_close(method.credit(rollout, 0).advantages[0], expected, rtol=0, atol=1e-7)


def test_several_rewards_are_standardised_each_in_its_group() -> None:
    """The sum of the losses of two rewards is, at ratio 1, the loss of the sum of their advantages."""
    method = DanceGRPO(group_size=3, advantage_mode="per_reward", advantage_clip=100.0)
    quality = torch.tensor([[1.0, 2.0, 3.0]] * 2).double()
    motion = torch.tensor([[30.0, 10.0, 20.0]] * 2).double()
    rollout = replace(
        rolled(method),
        rewards=quality + 0.5 * motion,
        parts={"quality": quality, "motion": motion},
        part_weights={"quality": 1.0, "motion": 0.5},
    )
    expected = torch.tensor([[-1 + 0.5, 0 - 0.5, 1 + 0.0]] * 2).double()
    torch.testing.assert_close(method.credit(rollout, 0).advantages[0], expected, rtol=0, atol=1e-7)


def test_T10_and_the_number_of_training_forwards() -> None:
    method = DanceGRPO(updates_per_rollout=3, micro_batch=40)
    policy = Perceptron()
    rollout = sampled(policy, method.plan(0, SIGMAS), ("a", "bcdef"))
    policy.batches.clear()
    ends = [loss for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0) if loss.update]
    assert len(ends) == 3
    assert sum(policy.batches) == 2 * 12 * 9
    assert ends[0].metrics["train/ratio_mean"] == 1.0


def test_refusals_name_the_field() -> None:
    with pytest.raises(ValidationError, match="group_size"):
        DanceGRPO(group_size=1)
    with pytest.raises(ValidationError, match="timestep_fraction"):
        DanceGRPO(timestep_fraction=0)
    with pytest.raises(ValidationError, match="best_of: 8 samples cannot be chosen from a group of 6"):
        DanceGRPO(group_size=6, best_of=8)
    with pytest.raises(ValidationError, match="best_of"):
        DanceGRPO(best_of=3)
    with pytest.raises(ValueError, match=r"timestep_fraction: 0.1 of 4 stochastic steps trains none"):
        DanceGRPO(timestep_fraction=0.1).plan(0, flow.grid(5))
