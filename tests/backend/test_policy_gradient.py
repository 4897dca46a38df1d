"""The loss over kept edges against one forward and one autograd call for each edge."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import flow, policy_gradient, tree
from backend.types import Credit, Loss, Plan, Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef")


def plan(num_steps: int = 6) -> Plan:
    sigmas = flow.grid(num_steps, 3.0)
    rates = flow.dance_rates(sigmas, 0.4)
    rates[-1] = 0
    return Plan(sigmas, tree.splits(num_steps, (0, 2), 2), rates, spread=4.0)


def credited(rollout: Rollout) -> Credit:
    values = tree.fuse(rollout.plan.parents, rollout.rewards, rollout.logps, 0.0)
    return Credit(tree.depth_advantages(values, 5.0), tree.trainable(rollout.plan, len(PROMPTS)), values)


def losses(policy: Perceptron, rollout: Rollout, credit: Credit, **options: object) -> list[Loss]:
    settings = {"clip": 1e-3, "micro_batch": 64, "updates": 1, "replay": False, **options}
    generator = torch.Generator().manual_seed(7)
    return list(policy_gradient.losses(policy, rollout, credit, generator=generator, **settings))  # type: ignore[arg-type]


def gradient(policy: Perceptron, rollout: Rollout, credit: Credit, **options: object) -> Tensor:
    policy.zero_grad()
    for loss in losses(policy, rollout, credit, **options):
        loss.value.backward()
    return policy.gradient()


def edge_by_edge(policy: Perceptron, rollout: Rollout, credit: Credit) -> Tensor:
    """-(1/E) sum A grad log p, with one forward for each edge: the gradient at ratio 1, written out."""
    policy.zero_grad()
    plan, total, num_edges = rollout.plan, torch.zeros(()).double(), 0
    for step in range(plan.num_steps):
        for prompt, child in credit.keep[step].nonzero().tolist():
            x = rollout.states[step][prompt, plan.parents[step][child]][None]
            v = policy.velocity(x, plan.sigmas[step].reshape(1), rollout.cond.take(torch.tensor([prompt])))
            mean, std = flow.sde_mean_std(x, v, plan.sigmas[step], plan.sigmas[step + 1], plan.rates[step])
            logp = torch.distributions.Normal(mean[0], std).log_prob(rollout.states[step + 1][prompt, child]).mean()
            total, num_edges = total - credit.advantages[step][prompt, child] * logp, num_edges + 1
    (total / num_edges).backward()
    return policy.gradient()


@pytest.fixture
def policy() -> Perceptron:
    return Perceptron()


@pytest.fixture
def rollout(policy: Perceptron) -> Rollout:
    return sampled(policy, plan(), PROMPTS)


def test_T28_siblings_share_a_forward_and_keep_the_gradient(policy: Perceptron, rollout: Rollout) -> None:
    credit = credited(rollout)
    expected = edge_by_edge(policy, rollout, credit)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(gradient(policy, rollout, credit), expected, rtol=0, atol=1e-12)


def test_T28_the_gradient_follows_the_kept_edges(policy: Perceptron, rollout: Rollout) -> None:
    credit = credited(rollout)
    generator = torch.Generator().manual_seed(2)
    some = tuple(keep & (torch.rand(keep.shape, generator=generator) < 0.4) for keep in credit.keep)
    credit = replace(credit, keep=some)
    expected = edge_by_edge(policy, rollout, credit)
    torch.testing.assert_close(gradient(policy, rollout, credit, micro_batch=3), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("micro_batch", [1, 4, 7])
def test_T16_micro_batches_add_up_to_the_same_gradient(policy: Perceptron, rollout: Rollout, micro_batch: int) -> None:
    credit = credited(rollout)
    whole = gradient(policy, rollout, credit)
    policy.batches.clear()
    torch.testing.assert_close(gradient(policy, rollout, credit, micro_batch=micro_batch), whole, rtol=0, atol=1e-12)
    assert max(policy.batches) == micro_batch
    # parents of the 5 stochastic steps: (1 + 2 + 2 + 4 + 4) for each of 2 prompts
    assert sum(policy.batches) == 26


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_T10_the_ratio_is_exactly_one_at_the_first_update(dtype: torch.dtype) -> None:
    policy = Perceptron(dtype=dtype, hidden=64)
    rollout = sampled(policy, plan(12), PROMPTS, dtype=dtype)
    for micro_batch in (1, 5, 64):
        *rest, last = losses(policy, rollout, credited(rollout), micro_batch=micro_batch)
        assert last.metrics["train/ratio_mean"] == 1.0
        assert last.metrics["train/approx_kl"] == 0.0
        assert last.metrics["train/clipfrac"] == 0.0
        assert last.metrics["rollout_corr/logprob_abs_diff_mean"] < (1e-6 if dtype == torch.float32 else 1e-14)
        assert [loss.update for loss in rest] == [False] * len(rest)
        assert last.update


def test_the_gap_to_the_rollout_shows_a_policy_that_changed_in_between(policy: Perceptron, rollout: Rollout) -> None:
    with torch.no_grad():
        policy.layers[2].bias += 0.1
    metrics = losses(policy, rollout, credited(rollout))[-1].metrics
    assert metrics["train/ratio_mean"] == 1.0
    assert metrics["rollout_corr/logprob_abs_diff_mean"] > 1e-3


def test_updates_share_the_edges_and_each_is_a_mean_over_its_own(policy: Perceptron, rollout: Rollout) -> None:
    credit = credited(rollout)
    whole = losses(policy, rollout, credit)
    policy.batches.clear()
    parts = losses(policy, rollout, credit, updates=4, micro_batch=3)
    assert sum(loss.update for loss in parts) == 4
    assert sum(policy.batches) == 26
    assert len(whole) == 1
    assert whole[0].value.item() == pytest.approx(whole[0].metrics["train/loss"], abs=1e-15)
    totals, total = [], 0.0
    for loss in parts:
        total += loss.value.item()
        if loss.update:
            totals.append((total, loss.metrics["train/loss"]))
            total = 0.0
    for value, metric in totals:
        assert value == pytest.approx(metric, abs=1e-15)


@pytest.mark.parametrize("replay", [False, True])
def test_later_updates_compare_with_the_weights_that_sampled(
    policy: Perceptron, rollout: Rollout, replay: bool
) -> None:
    seen = []
    for loss in policy_gradient.losses(
        policy,
        rollout,
        credited(rollout),
        clip=1e-3,
        micro_batch=64,
        updates=2,
        replay=replay,
        generator=torch.Generator().manual_seed(7),
    ):
        seen.append(loss.metrics)
        with torch.no_grad():
            policy.layers[2].bias += 0.05
    assert seen[0]["train/approx_kl"] == 0.0
    assert seen[1]["train/approx_kl"] > 1e-6
    assert 0 < seen[1]["train/clipfrac"] <= 1
    assert "rollout_corr/logprob_abs_diff_mean" not in seen[1]


def test_replay_makes_the_ratio_of_unchanged_weights_exactly_one() -> None:
    policy = Perceptron(dtype=torch.float32)
    rollout = sampled(policy, plan(), PROMPTS, dtype=torch.float32)
    off = replace(rollout, logps=tuple(logp + 0.01 for logp in rollout.logps))  # a rollout in another precision
    replayed = losses(policy, off, credited(off), updates=2, replay=True)
    assert [loss.metrics["train/approx_kl"] for loss in replayed] == [0.0, 0.0]
    trusted = losses(policy, off, credited(off), updates=2, replay=False)
    assert [loss.metrics["train/approx_kl"] for loss in trusted] == [0.0, pytest.approx(0.01**2 / 2, rel=1e-3)]


def test_T11_a_clipped_edge_has_no_gradient(policy: Perceptron, rollout: Rollout) -> None:
    """A second update with all advantages 1 and all ratios 1.1, above the clip range: nothing is left to gain."""
    credit = credited(rollout)
    credit = replace(credit, advantages=tuple(torch.ones_like(advantage) for advantage in credit.advantages))
    lower = replace(rollout, logps=tuple(logp - 0.0953 for logp in rollout.logps))
    first, second = losses(policy, lower, credit, updates=2, clip=1e-3)
    first.value.backward()
    assert policy.gradient().abs().max() > 1e-3
    policy.zero_grad()
    second.value.backward()
    assert policy.gradient().abs().max() == 0
    assert second.metrics["train/clipfrac"] == 1.0
    assert second.metrics["train/ratio_mean"] == pytest.approx(1.1, abs=1e-3)


def test_T15_zero_advantages_have_zero_gradient(policy: Perceptron, rollout: Rollout) -> None:
    credit = credited(rollout)
    credit = replace(credit, advantages=tuple(torch.zeros_like(advantage) for advantage in credit.advantages))
    assert gradient(policy, rollout, credit).abs().max() == 0


def test_T23_equal_rewards_have_zero_gradient_and_no_nan(policy: Perceptron, rollout: Rollout) -> None:
    equal = replace(rollout, rewards=torch.full_like(rollout.rewards, 0.3))
    assert gradient(policy, equal, credited(equal)).abs().max() == 0


def test_a_deterministic_edge_stays_out_even_when_kept(policy: Perceptron, rollout: Rollout) -> None:
    credit = credited(rollout)
    everything = replace(credit, keep=tuple(torch.ones_like(keep) for keep in credit.keep))
    torch.testing.assert_close(gradient(policy, rollout, everything), gradient(policy, rollout, credit))


def test_nothing_kept_yields_nothing(policy: Perceptron, rollout: Rollout) -> None:
    credit = credited(rollout)
    assert losses(policy, rollout, replace(credit, keep=tuple(torch.zeros_like(keep) for keep in credit.keep))) == []


def test_a_plan_without_noise_or_of_old_weights_is_refused(policy: Perceptron, rollout: Rollout) -> None:
    ode = replace(rollout.plan, parents=(torch.arange(4),) * 6, rates=torch.zeros(6))
    with pytest.raises(ValueError, match="all steps are deterministic"):
        losses(policy, replace(rollout, plan=ode), credited(rollout))
    with pytest.raises(ValueError, match="needs samples of 'current'"):
        losses(policy, replace(rollout, plan=replace(rollout.plan, weights="old")), credited(rollout))
