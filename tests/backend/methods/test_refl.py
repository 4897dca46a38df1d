"""ReFL: which step carries the gradient, the loss and its gradient by hand, margin, KL, and the rewards it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import config, flow
from backend.methods.refl import ReFL
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(8, 2.0)


def judge(frames: Tensor, prompts: Sequence[str]) -> Tensor:
    """The first pixel, weighted by the prompt's length: linear, with gradients."""
    return frames.flatten(1)[:, 0].double() * torch.tensor([float(len(prompt)) for prompt in prompts])


def rolled(method: ReFL, policy: Perceptron) -> Rollout:
    rollout = sampled(policy, method.plan(0, SIGMAS), ("a", "bcdef"))
    rewards = judge(rollout.states[-1].flatten(0, 1), ["a"] * method.group_size + ["bcdef"] * method.group_size)
    return replace(rollout, rewards=rewards.view(2, -1), judge=judge)


def gradient(method: ReFL, policy: Perceptron, rollout: Rollout, step: int = 0) -> tuple[Tensor, dict[str, float]]:
    policy.zero_grad()
    metrics: dict[str, float] = {}
    for loss in method.losses(policy, rollout, method.credit(rollout, step), step):
        torch.autograd.backward(loss.value)
        metrics |= loss.metrics
    return policy.gradient(), metrics


def test_the_plan_is_deterministic_with_noises_of_its_own() -> None:
    plan = ReFL(group_size=3).plan(0, SIGMAS)
    assert plan.widths == [3] * 9
    assert not plan.rates.any()
    assert len(rolled(ReFL(group_size=3), Perceptron()).states[0][0].flatten(1).unique(dim=0)) == 3


@pytest.mark.parametrize(("start", "steps"), [(0.75, {6, 7}), (0.0, set(range(8))), (0.99, {7})])
def test_each_sample_keeps_one_step_after_the_start(start: float, steps: set[int]) -> None:
    method = ReFL(group_size=16, start=start)
    rollout = rolled(method, Perceptron())
    drawn = torch.stack([torch.stack(method.credit(rollout, step).keep) for step in range(20)])
    assert torch.equal(drawn.sum(1), torch.ones(20, 2, 16).long())
    assert set(drawn.nonzero()[:, 1].tolist()) == steps
    again = torch.stack(method.credit(rollout, 3).keep)
    assert torch.equal(again, drawn[3])


def test_the_loss_is_minus_the_reward_of_the_predicted_data() -> None:
    method, policy = ReFL(group_size=5, reward_weight=3.0), Perceptron()
    rollout = rolled(method, policy)
    keep = method.credit(rollout, 0).keep
    policy.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for level, p, g in torch.stack(keep).nonzero().tolist():
        x, sigma = rollout.states[level][p, g][None], SIGMAS[level]
        v = policy.velocity(x, sigma[None], rollout.cond.take(torch.tensor([p])))
        total = total + judge(x - sigma * v, [rollout.prompts[p]]).sum()
    torch.autograd.backward(-3 * total / 10)
    expected = policy.gradient()
    found, metrics = gradient(method, policy, rollout)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert metrics["train/reward_predicted"] == pytest.approx(float(total.detach()) / 10)
    assert metrics["train/loss"] == pytest.approx(-3 * float(total.detach()) / 10)


def test_on_the_last_step_the_predicted_data_are_the_samples() -> None:
    method, policy = ReFL(start=0.99), Perceptron()
    rollout = rolled(method, policy)
    _, metrics = gradient(method, policy, rollout)
    assert rollout.rewards is not None
    assert metrics["train/reward_predicted"] == pytest.approx(float(rollout.rewards.mean()), abs=1e-12)


def test_T16_micro_batches_give_the_gradient_of_the_whole() -> None:
    policy = Perceptron()
    whole = ReFL(group_size=6, kl_weight=0.5)
    rollout = rolled(whole, policy)
    expected, _ = gradient(whole, policy, rollout)
    found, _ = gradient(whole.model_copy(update={"micro_batch": 5}), policy, rollout)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    short = whole.model_copy(update={"micro_batch": 5})
    ends = [loss.update for loss in short.losses(policy, rollout, short.credit(rollout, 0), 0)]
    assert ends == [False, False, True]


def test_samples_above_the_margin_have_no_gradient() -> None:
    policy = Perceptron()
    rollout = rolled(ReFL(), policy)
    none, metrics = gradient(ReFL(margin=-1e6), policy, rollout)
    assert torch.equal(none, torch.zeros_like(none))
    assert metrics["train/above_margin"] == 1.0
    every, metrics = gradient(ReFL(margin=1e6), policy, rollout)
    plain, _ = gradient(ReFL(), policy, rollout)
    torch.testing.assert_close(every, plain, rtol=1e-10, atol=1e-14)
    assert metrics["train/above_margin"] == 0.0


def test_the_kl_is_zero_with_zero_gradient_at_the_base_and_positive_away_from_it() -> None:
    policy = Perceptron()
    rollout = rolled(ReFL(), policy)
    plain, _ = gradient(ReFL(), policy, rollout)
    tied, metrics = gradient(ReFL(kl_weight=100.0), policy, rollout)
    assert metrics["train/kl_ref"] == 0.0
    torch.testing.assert_close(tied, plain, rtol=0, atol=0)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.01)
    _, metrics = gradient(ReFL(kl_weight=100.0), policy, rollout)
    assert metrics["train/kl_ref"] > 0


def test_rewards_without_gradients_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rewards: refl needs .* shapes has none; use nearest_truth"):
        config.parse({"method": {"name": "refl"}})
    assert config.parse({"method": {"name": "refl"}, "rewards": [{"name": "nearest_truth"}]}).method == ReFL()
    with pytest.raises(ValueError, match=r"method\.start: .* less than 1"):
        config.parse({"method": {"name": "refl", "start": 1.0}, "rewards": [{"name": "nearest_truth"}]})
