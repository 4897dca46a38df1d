"""What all methods on log-probabilities promise: ratio 1 at the start, gradients that add up, strict settings."""

from __future__ import annotations

import io

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from backend import flow
from backend.methods.branchgrpo import BranchGRPO
from backend.methods.dancegrpo import DanceGRPO
from backend.methods.flowgrpo import FastWindow, FlowGRPO
from backend.methods.grpoguard import GRPOGuard
from backend.methods.mixgrpo import Flash, MixGRPO
from backend.methods.settings import Trajectory
from backend.methods.tempflow import TempFlow
from backend.models.weights import Ema
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(8, 3.0)
PROMPTS = ("a", "bcdef")
METHODS = [
    BranchGRPO(split_steps=(0, 2)),
    DanceGRPO(group_size=4, best_of=2),
    FlowGRPO(group_size=4),
    FlowGRPO(group_size=4, sde="cps", eta=0.8, cps_logprob="unscaled", fast=FastWindow()),
    FlowGRPO(group_size=4, shared_noise=True, fast=FastWindow(shared_prefix=True)),
    GRPOGuard(group_size=4),
    MixGRPO(group_size=4),
    MixGRPO(group_size=4, flash=Flash()),
    TempFlow(branches=3),
]
all_methods = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def rolled(method: Trajectory, policy: Perceptron, dtype: torch.dtype = torch.float64) -> Rollout:
    return sampled(policy, method.plan(0, SIGMAS), PROMPTS, dtype=dtype)


def first_update(method: Trajectory, policy: Perceptron, rollout: Rollout) -> dict[str, float]:
    losses = method.losses(policy, rollout, method.credit(rollout, 0), 0)
    return next(loss.metrics for loss in losses if loss.update)


def gradient(method: Trajectory, policy: Perceptron, rollout: Rollout) -> Tensor:
    policy.zero_grad()
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        loss.value.backward()
    return policy.gradient()


@all_methods
@pytest.mark.parametrize(("dtype", "gap"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
def test_T10_the_first_ratio_is_one_and_the_rollout_agrees(method: Trajectory, dtype: torch.dtype, gap: float) -> None:
    policy = Perceptron(dtype=dtype)
    metrics = first_update(method.model_copy(update={"micro_batch": 5}), policy, rolled(method, policy, dtype))
    assert metrics["train/ratio_mean"] == 1.0
    assert metrics["train/approx_kl"] == 0.0
    assert metrics["rollout_corr/logprob_abs_diff_mean"] < gap


@all_methods
def test_T10_the_rollout_agrees_after_saving_and_loading_and_after_an_average_was_evaluated(method: Trajectory) -> None:
    policy, loaded, file = Perceptron(seed=1), Perceptron(seed=2), io.BytesIO()
    rollout = rolled(method, policy)
    torch.save(policy.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    average = Ema(loaded, 0.9)
    with torch.no_grad():
        for value in average.shadow.values():
            value.add_(1.0)
    with average.in_place():
        assert first_update(method, loaded, rollout)["rollout_corr/logprob_abs_diff_mean"] > 1e-3
    assert first_update(method, loaded, rollout)["rollout_corr/logprob_abs_diff_mean"] < 1e-13


@all_methods
def test_T16_micro_batches_add_up_to_the_same_gradient(method: Trajectory) -> None:
    policy = Perceptron()
    rollout = rolled(method, policy)
    with torch.no_grad():
        policy.layers[2].bias += 0.05  # away from the reference, so that a KL has a gradient
    whole = gradient(method, policy, rollout)
    assert whole.abs().max() > 1e-6
    small = gradient(method.model_copy(update={"micro_batch": 3}), policy, rollout)
    torch.testing.assert_close(small, whole, rtol=1e-10, atol=1e-13)


@all_methods
def test_settings_survive_the_way_to_json_and_back(method: Trajectory) -> None:
    assert type(method).model_validate_json(method.model_dump_json()) == method


@all_methods
def test_an_unknown_setting_is_refused(method: Trajectory) -> None:
    with pytest.raises(ValidationError, match="colour"):
        type(method).model_validate({"colour": 1})


def test_cps_settings_fit_the_noise() -> None:
    with pytest.raises(ValidationError, match="eta: with sde cps it must be below 1"):
        DanceGRPO(sde="cps", eta=1.0)
    with pytest.raises(ValidationError, match="cps_logprob: unscaled is for sde cps, got sde flow"):
        FlowGRPO(cps_logprob="unscaled")
    plan = DanceGRPO(sde="cps", eta=0.8).plan(0, SIGMAS)
    assert plan.noise == "cps"
    assert plan.rates.tolist() == [0.8] * 7 + [0.0]


def test_T9_the_last_cps_step_has_no_noise_and_stays_out_of_the_loss() -> None:
    """Its std sigma_T sin(eta pi / 2) is 0; the plan makes the step deterministic, and no edge of it is trained."""
    method, policy = FlowGRPO(group_size=4, sde="cps", eta=0.8), Perceptron()
    rollout = rolled(method, policy)
    assert rollout.logps[-1].isnan().all()
    assert not method.credit(rollout, 0).keep[-1].any()
    assert gradient(method, policy, rollout).isfinite().all()
