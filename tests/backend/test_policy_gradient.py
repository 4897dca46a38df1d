"""The loss over kept edges against one forward and one autograd call for each edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from backend import flow, policy_gradient, tree
from backend.policy_gradient import Objective
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
    """All losses of a rollout; options are fields of the objective, micro_batch and updates."""
    settings: dict[str, Any] = {"micro_batch": 64, "updates": 1, "clip": 1e-3, **options}
    cut = {name: settings.pop(name) for name in ("micro_batch", "updates")}
    generator = torch.Generator().manual_seed(7)
    return list(policy_gradient.losses(policy, rollout, credit, Objective(**settings), **cut, generator=generator))


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
        Objective(1e-3, replay=replay),
        micro_batch=64,
        updates=2,
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


def moved(policy: Perceptron, size: float = 0.05) -> Perceptron:
    """The policy, its output bias moved away from its reference and old copies."""
    with torch.no_grad():
        policy.layers[2].bias += size
    return policy


def test_T14_the_kl_is_zero_with_zero_gradient_at_the_reference(policy: Perceptron, rollout: Rollout) -> None:
    plain = gradient(policy, rollout, credited(rollout))
    assert torch.equal(gradient(policy, rollout, credited(rollout), kl_weight=100.0), plain)
    *_, last = losses(policy, rollout, credited(rollout), kl_weight=100.0)
    assert last.metrics["train/kl_ref"] == 0.0


def step_kl(policy: Perceptron, rollout: Rollout, with_delta: bool) -> Tensor:
    """The mean over kept edges of mean (mu - mu_ref)^2 / (2 s^2), times D if asked, edge by edge; with gradient."""
    plan, found = rollout.plan, []
    for step in range(plan.num_steps - 1):
        delta, rate = plan.sigmas[step] - plan.sigmas[step + 1], plan.rates[step]
        for prompt, parent in enumerate(plan.parents[step].expand(len(PROMPTS), -1)):
            x = rollout.states[step][prompt, parent]
            rows, sigma = torch.full((len(x),), prompt), plan.sigmas[step].expand(len(x))
            ours, theirs = (
                flow.sde_mean_std(
                    x, policy.velocity(x, sigma, rollout.cond.take(rows), name), sigma, sigma - delta, rate
                )
                for name in ("current", "reference")
            )
            kl = ((ours[0] - theirs[0]) ** 2).flatten(1).mean(1) / (2 * rate**2 * delta)
            found.append(kl * delta if with_delta else kl)
    return torch.cat(found).mean()


@pytest.mark.parametrize("form", ["gaussian", "released"])
def test_T14_the_kl_is_the_steps_gaussian_one_or_its_product_with_the_step(
    policy: Perceptron, rollout: Rollout, form: str
) -> None:
    credit = credited(rollout)
    zero = replace(credit, advantages=tuple(torch.zeros_like(advantage) for advantage in credit.advantages))
    expected = step_kl(moved(policy), rollout, with_delta=form == "released")
    *_, last = losses(policy, rollout, zero, kl_weight=2.0, kl_form=form, micro_batch=5)
    assert last.metrics["train/kl_ref"] == pytest.approx(expected.item(), rel=1e-12)
    assert last.metrics["train/loss"] == pytest.approx(2 * expected.item(), rel=1e-12)
    found = gradient(policy, rollout, zero, kl_weight=2.0, kl_form=form, micro_batch=5)
    policy.zero_grad()
    (2 * expected).backward()
    torch.testing.assert_close(found, policy.gradient(), rtol=1e-10, atol=1e-15)


def test_the_reference_costs_one_forward_a_parent_and_only_with_a_weight(policy: Perceptron, rollout: Rollout) -> None:
    policy.batches.clear()
    losses(policy, rollout, credited(rollout))
    assert sum(policy.batches) == 26
    policy.batches.clear()
    losses(policy, rollout, credited(rollout), kl_weight=0.1, updates=2, replay=True)
    assert sum(policy.batches) == 26 + 26 + 13  # the second of two parts is replayed, without a reference


def test_weights_multiply_the_surrogate_of_their_step_and_not_the_kl(policy: Perceptron, rollout: Rollout) -> None:
    credit, moved_policy = credited(rollout), moved(policy)
    weights = torch.linspace(0.5, 3.0, 6).double()
    scaled = tuple(weight * advantage for weight, advantage in zip(weights, credit.advantages, strict=True))
    expected = gradient(moved_policy, rollout, replace(credit, advantages=scaled), kl_weight=1.0)
    found = gradient(moved_policy, rollout, credit, weights=weights, kl_weight=1.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("ratio", ["unscaled", "guarded"])
def test_other_ratios_start_at_one_with_gradients_scaled_by_the_step(
    policy: Perceptron, rollout: Rollout, ratio: str
) -> None:
    """At ratio 1 the unscaled log-ratio's gradient is 2 s^2 times, the guarded one's s times the Gaussian's."""
    plan, credit = rollout.plan, credited(rollout)
    std = plan.rates * (plan.sigmas[:-1] - plan.sigmas[1:]).sqrt()
    expected = gradient(policy, rollout, credit, weights=2 * std**2 if ratio == "unscaled" else std)
    torch.testing.assert_close(gradient(policy, rollout, credit, ratio=ratio), expected, rtol=0, atol=1e-14)
    *_, last = losses(policy, rollout, credit, ratio=ratio, micro_batch=5)
    assert last.metrics["train/ratio_mean"] == 1.0
    assert last.metrics["train/approx_kl"] == 0.0


def second_update(rollout: Rollout, ratio: Any) -> list[float]:
    """The log-ratios of step 2's edges in the second of two updates, between which the policy moves."""
    policy, seen = Perceptron(), []

    def record(log_ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
        seen.append(log_ratio.detach())
        return log_ratio * advantages

    credit = credited(rollout)
    credit = replace(credit, keep=tuple(keep & (step == 2) for step, keep in enumerate(credit.keep)))
    objective, generator = Objective(1e-3, surrogate=record, ratio=ratio), torch.Generator().manual_seed(7)
    for _ in policy_gradient.losses(policy, rollout, credit, objective, micro_batch=64, updates=2, generator=generator):
        moved(policy)
    assert seen[0].abs().max() == 0
    return seen[1].tolist()


def by_definition(rollout: Rollout, log_ratio: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> list[float]:
    """log_ratio(child, moved mean, old mean, std) of every edge of step 2, one at a time."""
    old, new, plan, found = Perceptron(), moved(Perceptron()), rollout.plan, []
    sigma, sigma_next, rate = plan.sigmas[2], plan.sigmas[3], plan.rates[2]
    for prompt in range(len(PROMPTS)):
        for child, parent in enumerate(plan.parents[2].tolist()):
            x, cond = rollout.states[2][prompt, parent][None], rollout.cond.take(torch.tensor([prompt]))
            mean, mean_old = (
                flow.sde_mean_std(x, one.velocity(x, sigma.view(1), cond), sigma, sigma_next, rate)[0]
                for one in (new, old)
            )
            std = rate * (sigma - sigma_next).sqrt()
            found.append(log_ratio(rollout.states[3][prompt, child][None], mean, mean_old, std).item())
    return found


def paper_guard(x: Tensor, mean: Tensor, old: Tensor, std: Tensor) -> Tensor:
    kl = ((mean - old) ** 2).mean() / (2 * std**2)
    return (flow.log_prob(x, mean, std) - flow.log_prob(x, old, std) + kl) * std


def squared_distance(x: Tensor, mean: Tensor, old: Tensor, std: Tensor) -> Tensor:
    return ((x - old) ** 2).mean() - ((x - mean) ** 2).mean()


def test_T12_the_guarded_log_ratio_of_a_later_update_is_the_papers(rollout: Rollout) -> None:
    found, expected = second_update(rollout, "guarded"), by_definition(rollout, paper_guard)
    assert len(found) == 4  # two of four parents, with two children each
    assert all(min(abs(value - one) for one in expected) < 1e-14 for value in found)


def test_the_unscaled_log_ratio_of_a_later_update_is_that_of_the_squared_distance(rollout: Rollout) -> None:
    found, expected = second_update(rollout, "unscaled"), by_definition(rollout, squared_distance)
    assert len(found) == 4
    assert all(min(abs(value - one) for one in expected) < 1e-14 for value in found)


def test_the_guarded_ratio_does_not_use_the_rollouts_log_probabilities(rollout: Rollout) -> None:
    off = replace(rollout, logps=tuple(logp + 5 for logp in rollout.logps))
    assert second_update(off, "guarded") == second_update(rollout, "guarded")
    unmoved = losses(Perceptron(), off, credited(off), ratio="guarded", updates=3, micro_batch=4)
    assert {loss.metrics["train/approx_kl"] for loss in unmoved if loss.update} == {0.0}


def test_nothing_kept_yields_nothing(policy: Perceptron, rollout: Rollout) -> None:
    credit = credited(rollout)
    assert losses(policy, rollout, replace(credit, keep=tuple(torch.zeros_like(keep) for keep in credit.keep))) == []


def test_a_plan_without_noise_or_of_old_weights_is_refused(policy: Perceptron, rollout: Rollout) -> None:
    ode = replace(rollout.plan, parents=(torch.arange(4),) * 6, rates=torch.zeros(6))
    with pytest.raises(ValueError, match="all steps are deterministic"):
        losses(policy, replace(rollout, plan=ode), credited(rollout))
    with pytest.raises(ValueError, match="needs samples of 'current'"):
        losses(policy, replace(rollout, plan=replace(rollout.plan, weights="old")), credited(rollout))
