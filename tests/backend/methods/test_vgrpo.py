from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import flow, matching
from backend.methods.vgrpo import VGRPO, soft_clip
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef")
GROUP = 4


def rolled_out(method: VGRPO, policy: Perceptron) -> Rollout:
    return sampled(policy, method.plan(0, flow.grid(8)), PROMPTS)


def gradient(method: VGRPO, policy: Perceptron, rollout: Rollout, step: int = 0) -> Tensor:
    policy.zero_grad()
    for loss in method.losses(policy, rollout, method.credit(rollout, step), step):
        loss.value.backward()
    return policy.gradient()


@pytest.mark.parametrize(
    "options", [{}, {"prediction": "v"}, {"prediction": "eps"}, {"adaptive": False}, {"shared_pairs": False}]
)
def test_T33_the_gradient_is_advantage_weighted_denoising(options: dict[str, object]) -> None:
    policy, method = Perceptron(), VGRPO(group_size=GROUP, **options)
    rollout = rolled_out(method, policy)
    found = gradient(method, policy, rollout)
    generator, shared = torch.Generator().manual_seed(0), method.shared_pairs
    sigma = matching.levels(rollout.plan.sigmas[:-1], (2, 1 if shared else GROUP, 4), True, generator)
    at = matching.noised(rollout, matching.pairs(rollout, sigma, shared, generator), torch.arange(2 * GROUP * 4))
    v, s = matching.velocity(policy, rollout, at), at.sigma.view(-1, 1, 1)
    difference = {"x0": s, "v": 1.0, "eps": 1 - s}[method.prediction] * (v - at.target)
    error = (difference**2).flatten(1).mean(1)
    if method.adaptive:
        error = error / difference.detach().abs().flatten(1).mean(1).clamp(min=1e-5)
    policy.zero_grad()
    (method.credit(rollout, 0).advantages[-1][..., None] * error.view(2, GROUP, 4)).mean().backward()
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found, policy.gradient(), rtol=0, atol=1e-13)


def test_T36_identical_samples_of_a_group_have_identical_errors() -> None:
    """Equal samples of opposite advantages then leave no gradient; with noise of their own they do."""
    policy, method = Perceptron(), VGRPO(group_size=2)
    rollout = rolled_out(method, policy)
    same = replace(rollout, states=(rollout.states[-1][:, :1].expand(-1, 2, -1, -1),))
    assert gradient(method, policy, same).abs().max() < 1e-15
    assert gradient(VGRPO(group_size=2, shared_pairs=False), policy, same).abs().max() > 1e-3


def test_T39_soft_clip() -> None:
    advantages = torch.tensor([-100.0, -1e-4, 0.0, 1e-4, 2.0, 100.0], dtype=torch.float64)
    clipped = soft_clip(advantages, 3.0)
    torch.testing.assert_close(clipped[[1, 2, 3]], advantages[[1, 2, 3]], rtol=1e-8, atol=0)
    assert (clipped.abs() <= 3).all()
    assert clipped[4] == 3 * torch.tensor(2 / 3, dtype=torch.float64).tanh()
    torch.testing.assert_close(soft_clip(-advantages, 3.0), -clipped)
    torch.testing.assert_close(soft_clip(advantages, 1e9), advantages)


def test_soft_clipped_advantages_are_the_credit() -> None:
    policy, method = Perceptron(), VGRPO(group_size=GROUP, soft_clip=0.5)
    rollout = rolled_out(method, policy)
    whole = VGRPO(group_size=GROUP, soft_clip=None).credit(rollout, 0).advantages[-1]
    torch.testing.assert_close(method.credit(rollout, 0).advantages[-1], 0.5 * torch.tanh(whole / 0.5))


def test_clip_and_kl_act_from_the_second_update_on() -> None:
    policy = Perceptron()
    method = VGRPO(group_size=GROUP, updates_per_rollout=4, clip_range=1e-2, kl_weight=0.3)
    rollout = rolled_out(method, policy)
    metrics = []
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        loss.value.backward()
        if loss.update:
            metrics.append(loss.metrics)
            with torch.no_grad():
                policy.layers[2].bias += 0.1
    assert metrics[0]["train/ratio_mean"] == 1.0
    assert "train/kl_old" not in metrics[0]
    assert [one["train/kl_old"] > 0 for one in metrics[1:]] == [True] * 3


@pytest.mark.parametrize("option", [{"clip_range": 0.01}, {"kl_weight": 0.3}])
def test_what_never_acts_on_a_single_update_is_refused(option: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(option))}: .* never acts on a single update"):
        VGRPO(**option)


@pytest.mark.parametrize(("updates", "evaluated"), [(1, 0), (4, 72)])
def test_the_cost_is_the_forwards_that_are_run(updates: int, evaluated: int) -> None:
    """24 samples at 4 pairs; of 4 updates, 3 compare with the weights that sampled: 3/4 of 96."""
    policy, method = Perceptron(), VGRPO(updates_per_rollout=updates)
    rollout = sampled(policy, method.plan(0, flow.grid(8)), PROMPTS)
    policy.batches.clear()
    gradient(method, policy, rollout)
    cost = method.training_cost(rollout.plan)
    assert (cost.trained, cost.evaluated, cost.updates) == (96, evaluated, updates)
    assert sum(policy.batches) == 2 * (96 + evaluated)
