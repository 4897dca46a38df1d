"""TempFlow-GRPO: the comb's counts, credit within a branching step, and step weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from pydantic import ValidationError

from backend import flow
from backend.methods.tempflow import TempFlow
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(10, 3.0)
PROMPTS = ("a", "bcdef")


def test_the_comb_has_k_leaves_for_each_branching_step() -> None:
    plan = TempFlow().plan(0, SIGMAS)
    # at level i: the trunk and 6 children of each of the i steps before; the trunk ends at step 8
    assert plan.widths == [1, 7, 13, 19, 25, 31, 37, 43, 49, 54, 54]
    assert plan.num_leaves == 6 * 9
    assert plan.forwards_per_prompt == 279
    assert [int(plan.noisy(step).sum()) for step in range(10)] == [6] * 9 + [0]


def test_few_branching_steps_make_a_small_comb() -> None:
    plan = TempFlow(branches=2, branch_steps=(1, 4)).plan(0, SIGMAS)
    assert plan.widths == [1, 1, 3, 3, 3, 4, 4, 4, 4, 4, 4]
    assert plan.rates.nonzero().flatten().tolist() == [1, 4]
    assert plan.parents[1].tolist() == [0, 0, 0]
    assert plan.still[1].tolist() == [True, False, False]
    assert plan.parents[4].tolist() == [1, 2, 0, 0]  # the earlier children go on, the trunk becomes two
    assert plan.still[4].tolist() == [True, True, False, False]


def test_the_trunk_and_everything_after_a_branch_follow_the_ode() -> None:
    policy = Perceptron()
    rollout = sampled(policy, TempFlow(branches=2, branch_steps=(1, 4)).plan(0, SIGMAS), PROMPTS)
    x, cond = rollout.states[0][0, :1], rollout.cond.take(torch.zeros(1, dtype=torch.long))
    for sigma, sigma_next in pairwise(SIGMAS[:5]):
        x = x - (sigma - sigma_next) * policy.velocity(x, sigma.view(1), cond)
    torch.testing.assert_close(rollout.states[4][0, 0], x[0].detach(), rtol=0, atol=1e-12)
    x = rollout.states[2][0, 1:2]  # the first child of step 1
    for sigma, sigma_next in pairwise(SIGMAS[2:]):
        x = x - (sigma - sigma_next) * policy.velocity(x, sigma.view(1), cond)
    torch.testing.assert_close(rollout.states[-1][0, 0], x[0].detach(), rtol=0, atol=1e-12)


def test_advantages_compare_the_children_of_one_step() -> None:
    """Rewards 0 2 of step 1 and 10 30 of step 4: each pair is -1 and 1, however far apart the pairs are."""
    method = TempFlow(branches=2, branch_steps=(1, 4))
    rollout = sampled(Perceptron(), method.plan(0, SIGMAS), PROMPTS)
    rewards = torch.tensor([[0.0, 2.0, 10.0, 30.0], [5.0, 5.0, 1.0, 0.0]]).double()
    credit = method.credit(replace(rollout, rewards=rewards), 0)
    assert [int(keep.sum()) for keep in credit.keep] == [0, 4, 0, 0, 4, 0, 0, 0, 0, 0]
    close = {"rtol": 0, "atol": 1e-7}
    expected = torch.tensor([[-1.0, 1.0], [0.0, 0.0]]).double()
    torch.testing.assert_close(credit.advantages[1][credit.keep[1]].view(2, 2), expected, **close)
    expected = torch.tensor([[-1.0, 1.0], [1.0, -1.0]]).double()
    torch.testing.assert_close(credit.advantages[4][credit.keep[4]].view(2, 2), expected, **close)
    # the trunk's value is the mean of what leaves it from there on
    torch.testing.assert_close(credit.values[0], torch.tensor([[10.5], [2.75]]).double(), **close)
    torch.testing.assert_close(credit.values[4][:, 0], torch.tensor([20.0, 0.5]).double(), **close)


def test_each_branching_step_costs_one_training_forward_of_the_trunk() -> None:
    method, policy = TempFlow(kl_weight=0.0), Perceptron()
    rollout = sampled(policy, method.plan(0, SIGMAS), PROMPTS)
    policy.batches.clear()
    list(method.losses(policy, rollout, method.credit(rollout, 0), 0))
    assert sum(policy.batches) == 2 * 9


def test_step_weights_follow_the_noise_and_have_mean_one() -> None:
    method = TempFlow(branch_steps=(0, 2, 5))
    plan = method.plan(0, SIGMAS)
    weights = method.objective(plan).weights
    trained = torch.tensor([0, 2, 5])
    std = (flow.flow_sde_rates(SIGMAS, 0.7) * (SIGMAS[:-1] - SIGMAS[1:]).sqrt())[trained]
    torch.testing.assert_close(weights[trained], std / std.mean(), rtol=1e-12, atol=0)
    assert weights[trained].mean().item() == pytest.approx(1.0)
    released = TempFlow(branch_steps=(0, 2, 5), step_weight="released").objective(plan).weights
    torch.testing.assert_close(released[trained], 2.25 * std, rtol=1e-12, atol=0)
    assert TempFlow(step_weight="one").objective(plan).weights is None
    cps = TempFlow(sde="cps", eta=0.5, branch_steps=(0, 2, 5))
    weights = cps.objective(cps.plan(0, SIGMAS)).weights[trained]  # std sigma' sin(pi / 4)
    torch.testing.assert_close(weights, SIGMAS[trained + 1] / SIGMAS[trained + 1].mean(), rtol=1e-12, atol=0)


def test_refusals_name_the_field() -> None:
    with pytest.raises(ValidationError, match="branch_steps: steps must rise"):
        TempFlow(branch_steps=(3, 1))
    with pytest.raises(ValidationError, match="branch_steps"):
        TempFlow(branch_steps=())
    with pytest.raises(ValueError, match="branch_steps: step 9 cannot branch in 10 sampling steps"):
        TempFlow(branch_steps=(1, 9)).plan(0, SIGMAS)
