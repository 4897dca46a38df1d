from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import flow, matching
from backend.methods import nft
from backend.methods.nft import NFT
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef")
GROUP = 4


def rolled_out(method: NFT, policy: Perceptron, num_steps: int = 8) -> Rollout:
    return sampled(policy, method.plan(0, flow.grid(num_steps)), PROMPTS)


def gradient(method: NFT, policy: Perceptron, rollout: Rollout) -> Tensor:
    policy.zero_grad()
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        loss.value.backward()
    return policy.gradient()


def test_T41_equal_rewards_have_zero_gradient_at_the_old_weights() -> None:
    policy, method = Perceptron(), NFT(group_size=GROUP)
    rollout = replace(rolled_out(method, policy), rewards=torch.ones(2, GROUP).double())
    assert gradient(method, policy, rollout).abs().max() < 1e-15


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_T41_the_gradient_is_signed_denoising(beta: float) -> None:
    """At v = v_old: 2 beta (2r - 1) (v_old - target) an element, in the space of the data and over its denominator."""
    policy, method = Perceptron(), NFT(group_size=GROUP, beta=beta, kl_weight=0.0)
    rollout = rolled_out(method, policy)
    found = gradient(method, policy, rollout)
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(2, GROUP, 8, generator=generator).argsort(-1)[..., :7]
    pairs = matching.pairs(rollout, rollout.plan.sigmas[:-1][order], False, generator)
    at = matching.noised(rollout, pairs, torch.arange(2 * GROUP * 7))
    r = 0.5 + method.credit(rollout, 0).advantages[-1] / 10
    v = matching.velocity(policy, rollout, at)
    gap = (v - at.target).detach()
    size = (at.sigma.view(-1, 1, 1) * gap).abs().flatten(1).mean(1)
    weight = (2 * r - 1).flatten().repeat_interleave(7) * at.sigma**2 / size
    policy.zero_grad()
    # times 5 / beta, as the release does, so beta cancels
    (5 * 2 * weight.view(-1, 1, 1) * gap * v).flatten(1).mean(1).mean().backward()
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found, policy.gradient(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_T41_the_minimiser_moves_from_the_old_velocity_by_the_guidance_over_beta(beta: float) -> None:
    """At one x with many targets, v* = v_old + E[(2r - 1) (target - v_old)] / beta; not so with good samples alone."""
    generator = torch.Generator().manual_seed(0)
    targets, v_old = torch.randn(200, 3, generator=generator).double(), torch.randn(3, generator=generator).double()
    r = torch.rand(200, 1, generator=generator).double()

    def slope(at: Tensor, optimality: Tensor) -> Tensor:
        v = at.clone().requires_grad_()
        good, bad = nft.branches(v, v_old, beta)
        loss = (optimality * (good - targets) ** 2 + (1 - optimality) * (bad - targets) ** 2).mean()
        return torch.autograd.grad(loss, v)[0]

    best = v_old + ((2 * r - 1) * (targets - v_old)).mean(0) / beta
    assert slope(best, r).abs().max() < 1e-14
    assert slope(best, r.clamp(min=0.5)).abs().max() > 1e-2


def test_T42_decay_schedules() -> None:
    assert [nft.old_decay(steps, 0) for steps in (0, 500)] == [0, 0]
    assert [nft.old_decay(steps, 1) for steps in (0, 100, 500, 900)] == [0, pytest.approx(0.1), 0.5, 0.5]
    assert [nft.old_decay(steps, 2) for steps in (75, 100, 208, 209)] == [
        0,
        pytest.approx(0.1875),
        pytest.approx(0.9975),
        0.999,
    ]


def test_the_old_weights_sample_and_move_once_a_rollout() -> None:
    policy, method = Perceptron(), NFT(group_size=GROUP, updates_per_rollout=2)
    rollout = rolled_out(method, policy)
    assert rollout.plan.weights == "old"
    decays: list[float] = []
    policy.track_old = decays.append  # type: ignore[method-assign]
    updates = [loss.update for loss in method.losses(policy, rollout, method.credit(rollout, 99), 99)]
    assert sum(updates) == 2
    assert decays == [pytest.approx(0.1)]


def test_optimality_comes_from_the_global_std_and_stays_within_0_and_1() -> None:
    """Rewards 0 and 10, -5 and 5 less their means are -5 and 5, over a std of 5.59: r = 0.5 +- 0.447 / 5."""
    policy, method = Perceptron(), NFT(group_size=2)
    rollout = replace(rolled_out(method, policy), rewards=torch.tensor([[0.0, 10.0], [-5.0, 5.0]]).double())
    advantages = method.credit(rollout, 0).advantages[-1]
    expected = 5 / torch.tensor([0.0, 10.0, -5.0, 5.0]).double().std(correction=0)
    torch.testing.assert_close(advantages, torch.tensor([[-1.0, 1.0], [-1.0, 1.0]]).double() * expected)
    clipped = NFT(group_size=2, advantage_clip=0.5).credit(rollout, 0).advantages[-1]
    assert clipped.abs().max() == 0.5


def test_each_sample_trains_other_levels_each_at_most_once() -> None:
    """0.99 of 8 levels are 7. Forwards: current, old and base of each."""
    policy, method = Perceptron(), NFT(group_size=GROUP)
    rollout = rolled_out(method, policy)
    policy.batches.clear()
    gradient(method, policy, rollout)
    assert sum(policy.batches) == 3 * 2 * GROUP * 7
    cost = method.training_cost(rollout.plan)
    assert (cost.trained, cost.evaluated) == (GROUP * 7, 2 * GROUP * 7)
    with pytest.raises(ValueError, match=r"timestep_fraction: 0\.1 of 8 levels trains none"):
        NFT(timestep_fraction=0.1).plan(0, flow.grid(8))


def test_T14_the_kl_is_to_the_base() -> None:
    policy, method = Perceptron(), NFT(group_size=GROUP, kl_weight=0.1)
    rollout = replace(rolled_out(method, policy), rewards=torch.ones(2, GROUP).double())
    with torch.no_grad():
        policy.layers[2].bias += 0.5
    policy.track_old(0.0)
    losses = list(method.losses(policy, rollout, method.credit(rollout, 0), 0))
    assert losses[-1].metrics["train/kl_ref"] == pytest.approx(0.25)
    assert losses[-1].metrics["train/kl_old"] == 0


def test_samples_that_were_not_judged_do_not_pull_back_to_the_old_weights() -> None:
    """Away from the old weights r = 1/2 has a gradient, so they must not be trained on at all."""
    policy, method = Perceptron(), NFT(group_size=GROUP, kl_weight=0.0, adaptive=False)
    rollout = rolled_out(method, policy)
    with torch.no_grad():
        for value in policy.parameters():
            value.add_(0.1)
    failed = replace(rollout, rewards=torch.full((2, GROUP), torch.nan).double())
    failed.rewards[0, :2] = torch.tensor([0.0, 1.0])
    policy.batches.clear()
    assert gradient(method, policy, failed).abs().max() > 0
    # two samples of seven levels each, with the current weights and the old ones
    assert sum(policy.batches) == 2 * 2 * 7
