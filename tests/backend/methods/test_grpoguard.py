"""GRPO-Guard: Flow-GRPO's rollouts with another ratio and step weight."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from backend import flow
from backend.methods.flowgrpo import FlowGRPO
from backend.methods.grpoguard import GRPOGuard
from backend.policy_gradient import Objective
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(6, 3.0)
PROMPTS = ("a", "bcdef")


def gradient(method: FlowGRPO | GRPOGuard, rollout: Rollout) -> Tensor:
    policy = Perceptron()
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        loss.value.backward()
    return policy.gradient()


def test_plan_and_credit_are_flow_grpos() -> None:
    guard, plain = GRPOGuard(group_size=4), FlowGRPO(group_size=4)
    rollout = sampled(Perceptron(), guard.plan(0, SIGMAS), PROMPTS)
    assert torch.equal(guard.plan(0, SIGMAS).rates, plain.plan(0, SIGMAS).rates)
    for one, other in zip(guard.credit(rollout, 0).advantages, plain.credit(rollout, 0).advantages, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("step_weight", ["inverse_delta", "one"])
def test_at_ratio_one_each_steps_gradient_is_flow_grpos_times_std_over_delta(step_weight: str) -> None:
    """grad log rho is s times that of the plain ratio, and the loss is over D."""

    class Scaled(FlowGRPO):
        def objective(self, plan: object) -> Objective:
            delta = SIGMAS[:-1] - SIGMAS[1:]
            std = flow.flow_sde_rates(SIGMAS, 0.7) * delta.sqrt()
            return Objective(self.clip_range, weights=std / delta if step_weight == "inverse_delta" else std)

    guard = GRPOGuard(group_size=4, kl_weight=0.0, step_weight=step_weight)
    rollout = sampled(Perceptron(), guard.plan(0, SIGMAS), PROMPTS)
    expected = gradient(Scaled(group_size=4), rollout)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(gradient(guard, rollout), expected, rtol=1e-10, atol=1e-13)


def test_T10_all_updates_of_unchanged_weights_have_ratio_one() -> None:
    method, policy = GRPOGuard(group_size=4, updates_per_rollout=3, micro_batch=5), Perceptron()
    rollout = sampled(policy, method.plan(0, SIGMAS), PROMPTS)
    ends = [loss.metrics for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0) if loss.update]
    assert [metrics["train/approx_kl"] for metrics in ends] == [0.0, 0.0, 0.0]
    assert [metrics["train/kl_ref"] for metrics in ends] == [0.0, 0.0, 0.0]


def test_settings_it_does_not_use_are_refused() -> None:
    for field in ({"replay": True}, {"cps_logprob": "gaussian"}):
        with pytest.raises(ValidationError, match=next(iter(field))):
            GRPOGuard.model_validate(field)
