"""Sampling: noise, marginals and reproducibility of rollout trees."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from scipy import stats
from torch import Tensor

from backend import flow, rollout, tree
from backend.types import Plan
from tests.backend.toy import GaussianPolicy, Perceptron, gaussian_velocity, generators

INDEPENDENT = float("inf")


def grown(
    num_steps: int, split_steps: tuple[int, ...], branches: int = 2, spread: float = 4.0, eta: float = 0.6
) -> Plan:
    """A Dance-SDE tree whose last step is deterministic."""
    sigmas = flow.grid(num_steps, 3.0)
    rates = flow.dance_rates(sigmas, eta)
    rates[-1] = 0
    return Plan(sigmas, tree.splits(num_steps, split_steps, branches), rates, spread=spread)


def flat(num_steps: int, group_size: int, shared_noise: bool = True) -> Plan:
    plan = grown(num_steps, ())
    return replace(plan, parents=(torch.arange(group_size),) * num_steps, shared_noise=shared_noise)


def sample(policy: Perceptron | GaussianPolicy, plan: Plan, num_prompts: int, seed: int = 0) -> rollout.Rollout:
    prompts = [f"prompt {'x' * index}" for index in range(num_prompts)]
    return rollout.sample(policy, prompts, plan, generators(num_prompts, seed), dtype=torch.float64)


def test_a_rollout_has_the_shapes_of_its_plan_and_one_forward_a_level() -> None:
    policy, plan = Perceptron(), grown(5, (0, 2))
    result = sample(policy, plan, num_prompts=3)
    assert [tuple(state.shape) for state in result.states] == [(3, width, 2, 2) for width in (1, 2, 2, 4, 4, 4)]
    assert [tuple(logp.shape) for logp in result.logps] == [(3, width) for width in (2, 2, 4, 4, 4)]
    assert policy.batches == [3, 6, 6, 12, 12]
    assert sum(policy.batches) == 3 * plan.forwards_per_prompt
    assert [bool(logp.isnan().all()) for logp in result.logps] == [False] * 4 + [True]
    assert result.rewards is None
    assert not any(state.requires_grad for state in result.states)


def test_log_probabilities_are_those_of_each_edge() -> None:
    policy, plan = Perceptron(), grown(4, (0, 1))
    result = sample(policy, plan, num_prompts=2)
    for step in range(3):
        parent = result.states[step][1, plan.parents[step][1]][None]
        sigma, sigma_next = plan.sigmas[step], plan.sigmas[step + 1]
        v = policy.velocity(parent, sigma.reshape(1), result.cond.take(torch.tensor([1])))
        mean, std = flow.sde_mean_std(parent, v, sigma, sigma_next, plan.rates[step])
        normal = torch.distributions.Normal(mean[0], std)
        expected = normal.log_prob(result.states[step + 1][1, 1]).mean()
        torch.testing.assert_close(result.logps[step][1, 1], expected, rtol=0, atol=1e-12)


def test_prompts_do_not_depend_on_their_company() -> None:
    policy, plan = Perceptron(), grown(5, (0, 2))
    together = rollout.sample(policy, ["a", "bcd"], plan, generators(2), dtype=torch.float64)
    alone = rollout.sample(policy, ["bcd"], plan, generators(2)[1:], dtype=torch.float64)
    torch.testing.assert_close(together.states[-1][1], alone.states[-1][0], rtol=0, atol=1e-12)


def test_a_generator_a_prompt_is_required() -> None:
    with pytest.raises(ValueError, match="generators: give one for each of the 2 prompts, got 1"):
        rollout.sample(Perceptron(), ["a", "b"], grown(4, (0,)), generators(1))


def test_latents_are_float32_unless_told() -> None:
    result = rollout.sample(Perceptron(dtype=torch.float32), ["a"], grown(4, (0,)), generators(1))
    assert {state.dtype for state in (*result.states, *result.logps)} == {torch.float32}


def test_keep_last_stores_the_leaves_only() -> None:
    policy, plan = Perceptron(), grown(4, (0, 1))
    everything, leaves = sample(policy, plan, 2), sample(policy, replace(plan, keep="last"), 2)
    assert len(leaves.states) == 1
    assert torch.equal(leaves.states[0], everything.states[-1])


def test_on_level_shows_every_level_and_its_predicted_data() -> None:
    shown: list[tuple[int, tuple[int, ...], Tensor | None]] = []
    result = rollout.sample(
        Perceptron(),
        ["a"],
        grown(4, (0, 2)),
        generators(1),
        on_level=lambda level, states, x0: shown.append((level, tuple(states.shape[:2]), x0)),
        dtype=torch.float64,
    )
    assert [(level, shape) for level, shape, _ in shown] == [
        (0, (1, 1)),
        (1, (1, 2)),
        (2, (1, 2)),
        (3, (1, 4)),
        (4, (1, 4)),
    ]
    assert shown[-1][2] is None
    assert torch.equal(shown[3][2], result.states[-1])  # T6: the last step is deterministic


def test_roots_share_their_noise_or_do_not() -> None:
    shared, own = sample(Perceptron(), flat(3, 4), 2), sample(Perceptron(), flat(3, 4, shared_noise=False), 2)
    assert torch.equal(shared.states[0], shared.states[0][:, :1].expand(-1, 4, 2, 2))
    assert len(own.states[0][0].flatten(1).unique(dim=0)) == 4
    assert len(shared.states[-1][0].flatten(1).unique(dim=0)) == 4


@pytest.mark.parametrize("branches", [2, 3, 4])
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_T18_branch_noise_has_unit_variance_and_known_covariance(branches: int, spread: float) -> None:
    xi = branch_noise(branches, spread, num_dims=100_000)
    covariance = xi @ xi.T / xi.shape[1]
    expected = torch.full((branches, branches), 1 / (1 + spread**2)).double()  # 0.5 and 0.0588
    expected.fill_diagonal_(1.0)
    torch.testing.assert_close(covariance, expected, rtol=0, atol=0.015)


def test_T18_limits_of_the_spread() -> None:
    same = branch_noise(2, 1e-9, num_dims=1000)
    torch.testing.assert_close(same[0], same[1], rtol=0, atol=1e-7)
    for spread in (1e6, INDEPENDENT):
        one, other = branch_noise(2, spread, num_dims=100_000)
        assert abs(float((one * other).mean())) < 0.015


def branch_noise(branches: int, spread: float, num_dims: int) -> Tensor:
    """The noise of one split [branches, num_dims], read off a step of zero velocity."""
    policy = GaussianPolicy([0.0] * num_dims, [1.0] * num_dims)
    plan = grown(2, (0,), branches, spread)
    result = rollout.sample(policy, ["a"], plan, generators(1), dtype=torch.float64)
    x, sigmas = result.states[0][0], plan.sigmas
    v = policy.velocity(x, sigmas[:1], result.cond)
    mean, std = flow.sde_mean_std(x, v, sigmas[0], sigmas[1], plan.rates[0])
    return (result.states[1][0] - mean) / std


def test_T18_the_shared_part_is_drawn_afresh_for_every_node() -> None:
    policy, plan = GaussianPolicy([0.0] * 50_000, [1.0] * 50_000), grown(3, (0, 1), spread=1e-9)
    result = rollout.sample(policy, ["a"], plan, generators(1), dtype=torch.float64)
    own = rollout._branch_noise(plan, 1, generators(1), result.states[2])[0]
    torch.testing.assert_close(own[0], own[1], rtol=0, atol=1e-7)
    assert abs(float((own[0] * own[2]).mean())) < 0.02


NUM_TREES, MEAN, STD = 4000, (1.0, -0.5), (0.5, 1.2)


def plain_leaves(seed: int) -> Tensor:
    return sample(GaussianPolicy(MEAN, STD), flat(8, 1), NUM_TREES, seed).states[-1][:, 0]


def smallest_p_value(one: Tensor, other: Tensor) -> float:
    return min(stats.ks_2samp(one[:, i].numpy(), other[:, i].numpy()).pvalue for i in range(one.shape[1]))


def test_T19_leaves_of_a_tree_have_the_law_of_a_plain_rollout() -> None:
    leaves = sample(GaussianPolicy(MEAN, STD), grown(8, (0, 2, 4)), NUM_TREES, seed=1).states[-1]
    leaf = leaves[torch.arange(NUM_TREES), torch.arange(NUM_TREES) % 8]
    plain = plain_leaves(seed=2)
    assert smallest_p_value(leaf, plain) > 0.01
    torch.testing.assert_close(leaf.mean(0), plain.mean(0), rtol=0, atol=0.08)
    torch.testing.assert_close(leaf.T.cov(), plain.T.cov(), rtol=0.1, atol=0.03)


def test_T20_unnormalised_branch_noise_has_another_law() -> None:
    """The released code multiplies the noise of a split by 4 and leaves out the 1 / sqrt(1 + s^2)."""
    plan, generator = grown(8, (0, 2, 4)), torch.Generator().manual_seed(3)
    x = torch.randn(NUM_TREES, 2, generator=generator, dtype=torch.float64)
    for step in range(8):
        v = gaussian_velocity(x, plan.sigmas[step], torch.tensor(MEAN), torch.tensor(STD))
        mean, std = flow.sde_mean_std(x, v, plan.sigmas[step], plan.sigmas[step + 1], plan.rates[step])
        scale = 4.0 if step in (0, 2, 4) else 1.0
        x = mean + scale * std * torch.randn(x.shape, generator=generator, dtype=torch.float64)
    assert smallest_p_value(x, plain_leaves(seed=2)) < 1e-6


def test_T19_a_tree_that_never_splits_is_a_plain_rollout_bit_for_bit() -> None:
    policy = Perceptron()
    tree_like, plain = sample(policy, grown(6, ()), 2), sample(policy, flat(6, 1), 2)
    for one, other in zip(tree_like.states, plain.states, strict=True):
        assert torch.equal(one, other)
    generator = generators(1)[0]
    x = torch.randn(1, 2, 2, generator=generator, dtype=torch.float64)
    cond = policy.encode(["prompt "])
    for step in range(6):
        sigma, sigma_next = flow.grid(6, 3.0)[step : step + 2]
        v = policy.velocity(x, sigma.reshape(1), cond)
        mean, std = flow.sde_mean_std(x, v, sigma, sigma_next, 0.6 if step < 5 else 0.0)
        x = mean + std * torch.randn(x.shape, generator=generator, dtype=torch.float64) if step < 5 else mean
    torch.testing.assert_close(plain.states[-1][0], x, rtol=0, atol=1e-12)


def test_log_probabilities_of_samples_have_the_known_mean() -> None:
    plan = grown(4, ())
    logps = sample(GaussianPolicy([0.0] * 4, [1.0] * 4), plan, 4000).logps
    for step in range(3):
        std = 0.6 * math.sqrt(plan.sigmas[step] - plan.sigmas[step + 1])
        expected = -0.5 - math.log(std) - 0.5 * math.log(2 * math.pi)
        assert float(logps[step].mean()) == pytest.approx(expected, abs=0.03)


def test_a_level_in_parts_is_the_level() -> None:
    policy, plan, prompts = Perceptron(), grown(5, (0, 2)), ["a", "bc", "def"]
    whole = rollout.sample(policy, prompts, plan, generators(3), dtype=torch.float64)
    policy.batches.clear()
    parts = rollout.sample(policy, prompts, plan, generators(3), dtype=torch.float64, micro_batch=5)
    assert policy.batches == [3, 5, 1, 5, 1, 5, 5, 2, 5, 5, 2]
    torch.testing.assert_close(parts.states[-1], whole.states[-1], rtol=0, atol=1e-12)
