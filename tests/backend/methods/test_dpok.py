"""DPOK: the baseline in its advantages, its loss by hand, its KL, and the fitting of its value network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import flow
from backend.critic import Critic, hashed_words
from backend.methods.dpok import DPOK
from backend.types import Loss, Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(6, 2.0)


def rolled(method: DPOK, policy: Perceptron) -> Rollout:
    rollout = sampled(policy, method.plan(0, SIGMAS), ("a", "bcdef"))
    return replace(rollout, memory=method.remember(policy))


def run(method: DPOK, policy: Perceptron, rollout: Rollout, rate: float = 0.0) -> tuple[Tensor, list[Loss]]:
    """The gradient of the first update, and all losses; SGD with `rate` between them."""
    optimizer = torch.optim.SGD(policy.parameters(), lr=rate)
    optimizer.zero_grad()
    losses, gradients = [], []
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        torch.autograd.backward(loss.value)
        losses.append(loss)
        if loss.update:
            gradients.append(policy.gradient())
            optimizer.step()
            optimizer.zero_grad()
    return gradients[0], losses


def test_an_unfitted_network_leaves_the_weighted_reward_as_the_advantage() -> None:
    method, policy = DPOK(group_size=3, reward_weight=100.0), Perceptron()
    rollout = rolled(method, policy)
    assert rollout.rewards is not None
    credit = method.credit(rollout, 0)
    for advantage in credit.advantages:
        assert torch.equal(advantage, 100 * rollout.rewards)
    assert torch.equal(credit.values[-1], rollout.rewards)
    assert not torch.stack(credit.values[:-1]).any()


def test_the_advantage_of_an_edge_is_the_reward_less_the_value_of_its_parent() -> None:
    method, policy = DPOK(group_size=3, reward_weight=2.0), Perceptron()
    rollout = rolled(method, policy)
    critic = rollout.memory
    assert isinstance(critic, Critic)
    with torch.no_grad():
        critic.network[-1].weight.fill_(0.1)  # type: ignore[union-attr]
    credit = method.credit(rollout, 0)
    p, g, level = 1, 2, 4
    with torch.no_grad():
        value = critic(rollout.states[level][p, g][None], SIGMAS[level][None], hashed_words(["bcdef"]))
    assert rollout.rewards is not None
    expected = 2 * (float(rollout.rewards[p, g]) - float(value))
    assert float(credit.advantages[level][p, g]) == pytest.approx(expected, rel=1e-6)
    assert float(credit.values[level][p, g]) == pytest.approx(float(value), rel=1e-6)


def test_every_stochastic_step_is_trained_in_as_many_updates_as_asked() -> None:
    method, policy = DPOK(group_size=4, micro_batch=5), Perceptron()
    rollout = rolled(method, policy)
    policy.batches.clear()
    _, losses = run(method, policy, rollout)
    ends = [loss for loss in losses if loss.update]
    assert len(ends) == 5
    assert sum(policy.batches) == 2 * (2 * 4 * 5)  # current and reference, P G (T - 1)
    assert ends[0].metrics["train/ratio_mean"] == 1.0
    assert [("train/value_loss" in loss.metrics) for loss in ends] == [True, False, False, False, False]


def test_the_first_gradient_is_that_of_minus_the_weighted_rewards_log_probability() -> None:
    method, policy = DPOK(group_size=2, updates_per_rollout=1, kl_weight=0.0, reward_weight=3.0), Perceptron()
    rollout = rolled(method, policy)
    assert rollout.rewards is not None
    found, _ = run(method, policy, rollout)
    policy.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    rows = torch.tensor([0, 0, 1, 1])
    for level in range(5):
        x, child = rollout.states[level].flatten(0, 1), rollout.states[level + 1].flatten(0, 1)
        v = policy.velocity(x, SIGMAS[level].expand(4), rollout.cond.take(rows))
        mean, std = flow.ddim_mean_std(x, v, SIGMAS[level], SIGMAS[level + 1], 1.0)
        total = total - (3 * rollout.rewards.flatten() * flow.log_prob(child, mean, std)).sum()
    torch.autograd.backward(total / 20)
    torch.testing.assert_close(found, policy.gradient(), rtol=1e-9, atol=1e-12)


def test_pitfall_12_outside_the_interval_nothing_pulls_back_but_the_kl() -> None:
    # after a large step every ratio is outside 1 +- 1e-4, where PPO would pull back those that left the wrong way
    method, policy = DPOK(group_size=6, updates_per_rollout=2, kl_weight=0.0), Perceptron()
    rollout = rolled(method, policy)
    optimizer = torch.optim.SGD(policy.parameters(), lr=5.0)
    gradients, clipped = [], 0.0
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        optimizer.zero_grad()
        torch.autograd.backward(loss.value)
        gradients.append(policy.gradient())
        clipped = loss.metrics["train/clipfrac"]
        optimizer.step()
    assert clipped == 1.0
    assert gradients[0].abs().max() > 0
    assert torch.equal(gradients[1], torch.zeros_like(gradients[1]))


def test_T14_the_kl_is_zero_with_zero_gradient_at_the_base() -> None:
    policy = Perceptron()
    free, tied = DPOK(group_size=2, kl_weight=0.0), DPOK(group_size=2, kl_weight=10.0)
    rollout = rolled(free, policy)
    plain, _ = run(free, policy, replace(rollout, memory=free.remember(policy)))
    held, losses = run(tied, policy, replace(rollout, memory=tied.remember(policy)))
    torch.testing.assert_close(held, plain, rtol=0, atol=1e-14)
    assert next(loss.metrics for loss in losses if loss.update)["train/kl_ref"] == 0.0


def test_the_value_network_is_fitted_after_the_advantages_are_taken() -> None:
    method, policy = DPOK(group_size=8, value_learning_rate=1e-2, value_updates=100), Perceptron()
    rollout = rolled(method, policy)
    assert rollout.rewards is not None
    credit = method.credit(rollout, 0)
    assert not torch.stack(credit.values[:-1]).any()
    losses = [loss.metrics for loss in method.losses(policy, rollout, credit, 0) if loss.update]
    assert losses[0]["train/value_loss"] < float(rollout.rewards.square().mean())
    fitted = method.credit(rollout, 1)
    centred = torch.stack(fitted.advantages[:-1])
    assert float(centred.square().mean()) < 0.3 * float(rollout.rewards.square().mean())


def test_settings_that_it_does_not_use_are_refused() -> None:
    for name in ("advantage_clip", "sde", "replay"):
        with pytest.raises(ValueError, match=name):
            DPOK.model_validate({name: 1})


def test_pitfall_25_a_sample_that_was_not_judged_trains_neither_the_policy_nor_the_value_network() -> None:
    method, policy = DPOK(group_size=3, kl_weight=0.0, updates_per_rollout=1, value_updates=1), Perceptron()
    rollout = rolled(method, policy)
    assert rollout.rewards is not None
    rewards = rollout.rewards.clone()
    rewards[0, 1] = float("nan")
    lacking = replace(rollout, rewards=rewards)
    assert all(float(one[0, 1]) == 0.0 for one in method.credit(lacking, 0).advantages)
    gradient, losses = run(method, policy, lacking)
    assert bool(gradient.isfinite().all())
    known = rewards[~rewards.isnan()]
    assert losses[-1].metrics["train/value_loss"] == pytest.approx(float(known.square().mean()), rel=1e-6)
