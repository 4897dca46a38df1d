"""A sample's advantage on its steps, and the methods that are one another when their settings meet."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import flow, tree
from backend.methods import flat
from backend.methods.branchgrpo import BranchGRPO
from backend.methods.dancegrpo import DanceGRPO
from backend.methods.flowgrpo import FlowGRPO
from backend.methods.mixgrpo import MixGRPO
from backend.methods.settings import Trajectory
from backend.types import Credit, Plan, Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(6, 3.0)
PROMPTS = ("a", "bcdef")


def test_a_window_is_a_range_of_steps() -> None:
    assert flat.window(6, 2, 3).tolist() == [False, False, True, True, True, False]
    assert not flat.window(6, 2, 0).any()


def test_a_samples_advantage_is_on_all_its_edges_and_their_mean_on_shared_ones() -> None:
    rates = torch.tensor([0.0, 0.5, 0.5, 0.0])
    plan = Plan(flow.grid(4), tree.splits(4, (1,), 3), rates)
    rollout = sampled(Perceptron(), plan, PROMPTS)
    advantages = torch.tensor([[1.0, 2.0, -3.0], [0.5, 0.5, 2.0]]).double()
    credit = flat.credit(rollout, advantages)
    torch.testing.assert_close(credit.advantages[0], torch.tensor([[0.0], [1.0]]).double(), rtol=0, atol=1e-15)
    for edges in credit.advantages[1:]:
        assert torch.equal(edges, advantages)
    assert [keep.all().item() for keep in credit.keep] == [False, True, True, False]
    assert not credit.keep[0].any()
    torch.testing.assert_close(credit.values[0], rollout.rewards.mean(1, keepdim=True))
    assert torch.equal(credit.values[-1], rollout.rewards)


def gradient(method: Trajectory, rollout: Rollout, credit: Credit) -> Tensor:
    """That of the first update."""
    policy = Perceptron()
    for loss in method.losses(policy, rollout, credit, 0):
        loss.value.backward()
    return policy.gradient()


def rolled(method: Trajectory) -> Rollout:
    return sampled(Perceptron(), method.plan(0, SIGMAS), PROMPTS)


DANCE = DanceGRPO(sde="flow", eta=0.7, timestep_fraction=1.0, group_size=6)
MIX = MixGRPO(window=5, group_size=6)
FLOW = FlowGRPO(kl_weight=0.0, advantage_mode="group", group_size=6, shared_noise=True)


@pytest.mark.parametrize(("other", "scale"), [(MIX, 1.0), (FLOW, (6 / 5) ** 0.5)], ids=["mixgrpo", "flowgrpo"])
def test_a_window_over_all_steps_or_no_kl_is_dancegrpo(other: Trajectory, scale: float) -> None:
    """Flow-GRPO divides by the biased std, so its advantages are sqrt(6 / 5) times as large."""
    rollout, met = rolled(DANCE), rolled(other)
    assert torch.equal(met.states[-1], rollout.states[-1])
    credit, found = DANCE.credit(rollout, 0), other.credit(met, 0)
    for one, another in zip(found.advantages, credit.advantages, strict=True):
        torch.testing.assert_close(one, scale * another, rtol=1e-6, atol=0)
    for one, another in zip(found.keep, credit.keep, strict=True):
        assert torch.equal(one, another)
    expected = gradient(DANCE, rollout, credit)
    assert expected.abs().max() > 1e-3
    assert torch.equal(gradient(other, met, credit), expected)
    torch.testing.assert_close(gradient(other, met, found), scale * expected, rtol=1e-6, atol=0)


def test_T27_one_split_at_the_start_is_a_flat_group() -> None:
    branch = BranchGRPO(sde="flow", eta=0.7, clip_range=1e-4, split_steps=(0,), branches=6, fusion_beta=0.0)
    rollout = rolled(branch)
    credit, found = DANCE.credit(rollout, 0), branch.credit(rollout, 0)
    for one, another in zip(found.advantages, credit.advantages, strict=True):
        torch.testing.assert_close(one, another, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient(branch, rollout, found), gradient(DANCE, rollout, credit), rtol=0, atol=1e-12)


def test_equal_rewards_have_no_gradient() -> None:
    policy, method = Perceptron(), FlowGRPO(group_size=4, kl_weight=0.0)
    rollout = sampled(policy, method.plan(0, SIGMAS), PROMPTS)
    equal = replace(rollout, rewards=torch.full_like(rollout.rewards, 0.3))
    for loss in method.losses(policy, equal, method.credit(equal, 0), 0):
        loss.value.backward()
    assert policy.gradient().abs().max() == 0
