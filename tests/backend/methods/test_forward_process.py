"""What the forward-process methods have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import flow
from backend.methods.awm import AWM
from backend.methods.dgpo import DGPO
from backend.methods.dpo import DPO
from backend.methods.forward_process import ForwardProcess
from backend.methods.nft import NFT
from backend.methods.vgrpo import VGRPO
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

GROUP = 4
FAMILY = (DGPO, VGRPO, NFT, AWM, DPO)


def gradient(method: ForwardProcess, policy: Perceptron, rollout: Rollout, step: int = 0) -> Tensor:
    policy.zero_grad()
    for loss in method.losses(policy, rollout, method.credit(rollout, step), step):  # type: ignore[attr-defined]
        loss.value.backward()
    return policy.gradient()


def mean_gradient(method: ForwardProcess, policy: Perceptron, rollout: Rollout) -> Tensor:
    """Over 400 draws of the noise."""
    return torch.stack([gradient(method, policy, rollout, step) for step in range(400)]).mean(0)


def test_T33_all_methods_agree_to_first_order() -> None:
    """At the start of an update each gradient is c sum A_i w(t) grad ||v - target||^2. On a grid with a single level to
    train the weights w are the same too, so the directions agree once the noise, which each draws in its own way, is
    averaged out. (Diffusion-DPO's pair is DGPO's group of two: see there.)"""
    policy = Perceptron()
    sigmas = torch.tensor([0.5, 0.0], dtype=torch.float64)
    chains = {"group_size": GROUP, "solver": "euler"}
    methods = (
        VGRPO(**chains, pairs=8, adaptive=False, soft_clip=None),
        DGPO(**chains, train_timesteps=1, clip_range=None, kl_weight=0.0),
        NFT(**chains, timestep_fraction=1.0, adaptive=False, kl_weight=0.0, advantages="group"),
        AWM(**chains, first_level=0, timestep_fraction=1.0, weighting="uniform", advantage_clip=5.0, kl_weight=0.0),
    )
    rollout = sampled(policy, methods[0].plan(0, sigmas), ("a", "bcdef", "gh"))
    exact, *others = (mean_gradient(method, policy, rollout) for method in methods)
    for found in others:
        assert torch.cosine_similarity(found, exact, dim=0) > 0.99


@pytest.mark.parametrize("kind", FAMILY)
def test_methods_train_on_final_samples_alone(kind: type[ForwardProcess]) -> None:
    """Levels come from the plan's grid, and nothing else of a rollout but its ends is used: logps are not."""
    method, policy = kind(group_size=GROUP), Perceptron()
    plan = method.plan(0, flow.grid(10))
    assert kind.samples_only
    assert plan.keep == "last"
    rollout = sampled(policy, plan, ("a", "bcdef"))
    stored = replace(rollout, logps=(), plan=replace(plan, rates=plan.rates))
    torch.testing.assert_close(gradient(method, policy, stored), gradient(method, policy, rollout))


@pytest.mark.parametrize("kind", FAMILY)
def test_T48_a_step_decides_all_draws(kind: type[ForwardProcess]) -> None:
    method, policy = kind(group_size=GROUP), Perceptron()
    rollout = sampled(policy, method.plan(0, flow.grid(10)), ("a", "bcdef"))
    assert torch.equal(gradient(method, policy, rollout, 3), gradient(method, policy, rollout, 3))
    assert not torch.equal(gradient(method, policy, rollout, 3), gradient(method, policy, rollout, 4))


@pytest.mark.parametrize("kind", FAMILY)
def test_T46_training_raises_the_reward(kind: type[ForwardProcess]) -> None:
    """60 updates of a network in float32; the reward is the mean of the sample.

    A preference's margin is a mean over dimensions: with 4 of them it takes a smaller beta to come as far.
    """
    options = {"beta": 1.0} if kind in (DGPO, DPO) else {}
    method, policy = kind(group_size=8, micro_batch=256, **options), Perceptron(dtype=torch.float32)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    grid, means = flow.grid(10), []
    for step in range(60):
        rollout = sampled(policy, method.plan(step, grid), ("a", "bcdef", "ghij", "k"), step, torch.float32)
        assert rollout.rewards is not None
        means.append(float(rollout.rewards.mean()))
        for loss in method.losses(policy, rollout, method.credit(rollout, step), step):  # type: ignore[attr-defined]
            loss.value.backward()
            if loss.update:
                optimizer.step()
                optimizer.zero_grad()
    before, after = torch.tensor(means[:10]), torch.tensor(means[-10:])
    error = ((before.var() + after.var()) / 10) ** 0.5
    assert after.mean() - before.mean() > 3 * error
