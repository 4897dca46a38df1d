"""The surrogate's ratio against gradients and ratios written out by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from backend import flow, matching, surrogate
from backend.surrogate import Objective
from backend.types import Loss, Plan, Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef")
GROUP, PAIRS = 3, 4


def error(v: Tensor, at: matching.Noised) -> Tensor:
    return matching.adaptive(matching.residual(v, at.target, at.sigma, "x0"))


@pytest.fixture
def policy() -> Perceptron:
    return Perceptron()


@pytest.fixture
def rollout(policy: Perceptron) -> Rollout:
    plan = Plan(flow.grid(8), (torch.arange(GROUP),) * 8, torch.zeros(8), shared_noise=False, keep="last")
    return sampled(policy, plan, PROMPTS)


@pytest.fixture
def pairs(rollout: Rollout) -> matching.Pairs:
    generator = torch.Generator().manual_seed(3)
    sigma = matching.levels(rollout.plan.sigmas[:-1], (2, 1, PAIRS), True, generator)
    return matching.pairs(rollout, sigma, True, generator)


def advantages() -> Tensor:
    return torch.tensor([[1.0, -0.5, -0.5], [0.2, 0.9, -1.1]], dtype=torch.float64)


def losses(policy: Perceptron, rollout: Rollout, pairs: matching.Pairs, **options: object) -> Iterator[Loss]:
    signal = options.pop("advantages", advantages())
    settings = {name: options.pop(name, value) for name, value in (("micro_batch", 64), ("updates", 1))}
    objective, generator = Objective(error, **options), torch.Generator().manual_seed(7)  # type: ignore[arg-type]
    return surrogate.losses(policy, rollout, signal, pairs, objective, generator=generator, **settings)  # type: ignore[arg-type]


def gradient(policy: Perceptron, rollout: Rollout, pairs: matching.Pairs, **options: object) -> Tensor:
    policy.zero_grad()
    for loss in losses(policy, rollout, pairs, **options):
        loss.value.backward()
    return policy.gradient()


def errors(policy: Perceptron, rollout: Rollout, pairs: matching.Pairs) -> Tensor:
    """[P, G, J]"""
    at = matching.noised(rollout, pairs, torch.arange(2 * GROUP * PAIRS))
    return error(matching.velocity(policy, rollout, at), at).view(2, GROUP, PAIRS)


@pytest.mark.parametrize("per_pair", [False, True])
def test_T33_on_policy_the_gradient_is_that_of_the_weighted_errors(
    policy: Perceptron, rollout: Rollout, pairs: matching.Pairs, per_pair: bool
) -> None:
    found = gradient(policy, rollout, pairs, per_pair=per_pair, clip=1e-3)
    policy.zero_grad()
    (advantages() * errors(policy, rollout, pairs).mean(-1)).mean().backward()
    assert policy.gradient().abs().max() > 1e-3
    torch.testing.assert_close(found, policy.gradient(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("micro_batch", [4, 9])
def test_T16_micro_batches_add_up_and_samples_keep_their_pairs(
    policy: Perceptron, rollout: Rollout, pairs: matching.Pairs, micro_batch: int
) -> None:
    whole = gradient(policy, rollout, pairs)
    policy.batches.clear()
    found = gradient(policy, rollout, pairs, micro_batch=micro_batch)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-13)
    assert sum(policy.batches) == 2 * GROUP * PAIRS
    assert set(policy.batches) == {micro_batch // PAIRS * PAIRS}
    with pytest.raises(ValueError, match="micro_batch: 3 is too small"):
        next(losses(policy, rollout, pairs, micro_batch=3))


def test_T10_the_first_update_has_ratio_one(policy: Perceptron, rollout: Rollout, pairs: matching.Pairs) -> None:
    (loss,) = losses(policy, rollout, pairs, clip=1e-3)
    assert loss.metrics["train/ratio_mean"] == 1.0
    assert loss.metrics["train/clipfrac"] == 0.0
    assert loss.metrics["train/approx_kl"] == 0.0
    assert loss.update


def test_T34_the_sign_of_the_advantages_is_the_sign_of_the_loss(
    policy: Perceptron, rollout: Rollout, pairs: matching.Pairs
) -> None:
    found = gradient(policy, rollout, pairs)
    torch.testing.assert_close(gradient(policy, rollout, pairs, advantages=-advantages()), -found)


def test_T15_zero_advantages_have_zero_gradient(policy: Perceptron, rollout: Rollout, pairs: matching.Pairs) -> None:
    assert gradient(policy, rollout, pairs, advantages=torch.zeros(2, GROUP)).abs().max() == 0


@pytest.mark.parametrize("per_pair", [False, True])
def test_T38_later_ratios_are_of_the_weights_that_sampled(
    policy: Perceptron, rollout: Rollout, pairs: matching.Pairs, per_pair: bool
) -> None:
    """One ratio a sample is exp of a mean, which Jensen puts below the mean of the ratios of its pairs."""
    before = errors(policy, rollout, pairs).detach()
    running = losses(policy, rollout, pairs, per_pair=per_pair, updates=2)
    _, second = torch.randperm(2 * GROUP, generator=torch.Generator().manual_seed(7)).tensor_split(2)
    assert next(running).metrics["train/ratio_mean"] == 1.0
    with torch.no_grad():
        policy.layers[2].bias += 0.5
    metrics = next(running).metrics
    log_ratio = (before - errors(policy, rollout, pairs).detach()).flatten(0, 1)[second]
    whole, each = log_ratio.mean(1).exp(), log_ratio.exp().mean(1)
    assert metrics["train/ratio_mean"] == pytest.approx(float((each if per_pair else whole).mean()), rel=1e-12)
    assert (each > whole + 1e-6).all()


def test_T11_a_clipped_sample_has_no_gradient(policy: Perceptron, rollout: Rollout, pairs: matching.Pairs) -> None:
    """After a large step the sign of A log rho says which samples PPO still trains."""
    running = losses(policy, rollout, pairs, clip=1e-6, micro_batch=PAIRS, updates=2)
    for _ in range(GROUP):
        next(running)
    before = errors(policy, rollout, pairs).detach()
    with torch.no_grad():
        policy.layers[2].bias += 0.5
    log_ratio = (before - errors(policy, rollout, pairs).detach()).mean(-1).flatten()
    second = torch.randperm(2 * GROUP, generator=torch.Generator().manual_seed(7)).tensor_split(2)[1]
    outcomes = []
    for sample, loss in zip(second.tolist(), running, strict=True):
        policy.zero_grad()
        loss.value.backward()
        outcomes.append(float(advantages().flatten()[sample] * log_ratio[sample]) < 0)
        assert (policy.gradient().abs().max() > 0) == outcomes[-1]
    assert len(set(outcomes)) == 2


@pytest.mark.parametrize("prediction", ["v", "x0"])
def test_T40_the_behaviour_kl_starts_at_zero_and_is_the_squared_distance_after(
    policy: Perceptron, rollout: Rollout, pairs: matching.Pairs, prediction: str
) -> None:
    assert [
        gradient(policy, rollout, pairs, advantages=torch.zeros(2, GROUP), kl_old=0.3, updates=updates).abs().max()
        for updates in (1, 2)
    ] == [0, 0]
    none = torch.zeros(2, GROUP)
    running = losses(policy, rollout, pairs, advantages=none, kl_old=0.3, prediction=prediction, updates=2)
    next(running)
    with torch.no_grad():
        policy.layers[2].bias += 0.5
    loss = next(running)
    # the velocity has moved by 0.5 in every dimension, the predicted data by 0.5 sigma
    second = torch.randperm(2 * GROUP, generator=torch.Generator().manual_seed(7)).tensor_split(2)[1]
    sigma = pairs.sigma.flatten(0, 1)[second]
    expected = 0.25 if prediction == "v" else float((0.25 * sigma**2).mean())
    assert loss.metrics["train/kl_old"] == pytest.approx(expected)
    assert loss.value.item() == pytest.approx(0.3 * expected)


def test_T14_the_kl_to_the_base_is_zero_there_and_the_squared_distance_elsewhere(
    policy: Perceptron, rollout: Rollout, pairs: matching.Pairs
) -> None:
    none = torch.zeros(2, GROUP)
    assert gradient(policy, rollout, pairs, advantages=none, kl_ref=0.1).abs().max() == 0
    with torch.no_grad():
        policy.layers[2].bias += 0.5
    (loss,) = losses(policy, rollout, pairs, advantages=none, kl_ref=0.1)
    assert loss.metrics["train/kl_ref"] == pytest.approx(0.25)
    assert loss.value.item() == pytest.approx(0.025)
