from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn.functional import logsigmoid

from backend import flow, matching
from backend.methods import dgpo, dpo
from backend.methods.dgpo import DGPO
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef", "gh")
GROUP = 4
PLAIN = {"group_size": GROUP, "clip_range": None, "kl_weight": 0.0}


def moved(amount: float = 0.3) -> Perceptron:
    """A policy whose current weights have left the base and the old ones."""
    policy = Perceptron()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += amount * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5)).double()
    return policy


def rolled_out(method: DGPO, policy: Perceptron, step: int = 0) -> Rollout:
    return sampled(policy, method.plan(step, flow.grid(10)), PROMPTS, seed=step)


def gradient(method: DGPO, policy: Perceptron, rollout: Rollout, step: int = 0) -> Tensor:
    policy.zero_grad()
    for loss in method.losses(policy, rollout, method.credit(rollout, step), step):
        loss.value.backward()
    return policy.gradient()


def drawn(method: DGPO, rollout: Rollout, step: int = 0) -> matching.Pairs:
    """The pairs that `losses` draws: levels first, then noise."""
    generator = torch.Generator().manual_seed(step)
    levels = dgpo.candidates(rollout.plan.sigmas, method.t_min, method.train_timesteps)
    chosen = levels[torch.randperm(len(levels), generator=generator)[: method.train_timesteps]]
    shape = (len(PROMPTS), 1, -1)
    return matching.pairs(rollout, chosen.expand(*shape), method.shared_pairs, generator)


def errors(policy: Perceptron, rollout: Rollout, pairs: matching.Pairs, weights: str = "current") -> Tensor:
    """[P, G, J]"""
    at = matching.noised(rollout, pairs, torch.arange(pairs.sigma.numel()))
    v = matching.velocity(policy, rollout, at, weights)  # type: ignore[arg-type]
    return matching.mean_square(v - at.target).view(pairs.sigma.shape)


def margins(policy: Perceptron, method: DGPO, rollout: Rollout, pairs: matching.Pairs) -> Tensor:
    """S [P, J] with gradient."""
    gap = errors(policy, rollout, pairs) - errors(policy, rollout, pairs, "reference")
    advantages = method.credit(rollout, 0).advantages[-1]
    return method.beta / GROUP * (advantages[..., None] * gap).sum(1)


def test_T29_advantages_sum_to_zero_so_that_a_constant_does_not_matter() -> None:
    method, policy = DGPO(**PLAIN), moved()
    advantages = method.credit(rolled_out(method, policy), 0).advantages[-1]
    assert advantages.sum(1).abs().max() < 1e-14
    gap, group = torch.randn(3, GROUP).double(), torch.arange(3).repeat_interleave(GROUP)
    before, after = (dgpo.partial_sums(advantages.flatten(), g.flatten(), group, 3) for g in (gap, gap + 7))
    torch.testing.assert_close(before, after)


@pytest.mark.parametrize("beta", [0.5, 100.0])
def test_T30_the_gradient_is_that_of_the_explicit_objective_over_beta(beta: float) -> None:
    method, policy = DGPO(**PLAIN, beta=beta), moved(0.05)
    rollout = rolled_out(method, policy)
    found = gradient(method, policy, rollout)
    policy.zero_grad()
    (-logsigmoid(-margins(policy, method, rollout, drawn(method, rollout)))).mean().backward()
    expected = policy.gradient() / beta
    assert expected.abs().max() > 1e-6
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-14)


def test_T31_a_group_of_two_is_a_pair_of_diffusion_dpo() -> None:
    method, policy = DGPO(**PLAIN | {"group_size": 2}, beta=20.0), moved(0.05)
    rollout = rolled_out(method, policy)
    credit = method.credit(rollout, 0)
    signs = credit.advantages[-1].sign()
    torch.testing.assert_close(credit.advantages[-1], signs, rtol=1e-6, atol=0)  # 1e-8 guards against a std of 0
    for loss in method.losses(policy, rollout, replace(credit, advantages=(signs,)), 0):
        loss.value.backward()
    found, pairs = policy.gradient(), drawn(method, rollout)
    policy.zero_grad()
    gap = errors(policy, rollout, pairs) - errors(policy, rollout, pairs, "reference")
    better, worse = gap[signs > 0], gap[signs < 0]
    pair_loss = dpo.preference_loss(better, worse, 20.0)
    # the logit: S = beta / 2 (1 better - 1 worse)
    torch.testing.assert_close(pair_loss, -logsigmoid(-20.0 / 2 * (signs[..., None] * gap).sum(1)), rtol=0, atol=1e-15)
    pair_loss.mean().backward()
    torch.testing.assert_close(found, policy.gradient() / 20, rtol=1e-10, atol=1e-15)


def test_T32_at_the_reference_the_weight_is_one_half_whatever_beta() -> None:
    policy = Perceptron()
    method = DGPO(**PLAIN)
    rollout = rolled_out(method, policy)
    found = gradient(method, policy, rollout)
    policy.zero_grad()
    advantages = method.credit(rollout, 0).advantages[-1]
    (0.5 * advantages[..., None] * errors(policy, rollout, drawn(method, rollout))).mean().backward()
    torch.testing.assert_close(found, policy.gradient(), rtol=0, atol=1e-14)
    torch.testing.assert_close(gradient(DGPO(**PLAIN, beta=1000.0), policy, rollout), found)


def test_T32_the_weight_grows_to_one_where_the_worse_samples_are_preferred() -> None:
    sums = torch.tensor([[0.0, 4.0], [10.0, 4.0], [-10.0, 4.0]]).double()
    weights = dgpo.preference_weights(sums, 4, 100.0)
    torch.testing.assert_close(weights, torch.tensor([0.5, 1.0, 0.0]).double())


def test_T32b_parts_of_a_group_add_up_and_an_incomplete_group_is_refused() -> None:
    advantages, gap = torch.randn(2, 8, generator=torch.Generator().manual_seed(1)).double()
    group = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1])
    here, there = (
        dgpo.partial_sums(advantages[part], gap[part], group[part], 2) for part in (slice(0, 3), slice(3, 8))
    )
    whole = dgpo.partial_sums(advantages, gap, group, 2)
    torch.testing.assert_close(
        dgpo.preference_weights(here + there, 4, 1.0), dgpo.preference_weights(whole, 4, 1.0), rtol=0, atol=1e-15
    )
    with pytest.raises(ValueError, match="group_size: a group has 2 of its 4 samples"):
        dgpo.preference_weights(here, 4, 1.0)


@pytest.mark.parametrize("micro_batch", [4, 9])
def test_T16_groups_stay_whole_in_micro_batches(micro_batch: int) -> None:
    policy = moved(0.05)
    method = DGPO(**PLAIN)
    rollout = rolled_out(method, policy)
    whole = gradient(method, policy, rollout)
    policy.batches.clear()
    found = gradient(DGPO(**PLAIN, micro_batch=micro_batch), policy, rollout)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-14)
    assert all(size % GROUP == 0 and size <= micro_batch for size in policy.batches)


def test_T32c_a_clipped_sample_loses_its_gradient_and_keeps_its_say() -> None:
    """S, in which the clipped samples still count, against the unclipped samples' gradients alone."""
    method, policy = DGPO(**PLAIN), moved(0.05)
    rollout = rolled_out(method, policy)
    pairs = drawn(method, rollout)
    log_ratio = (errors(policy, rollout, pairs, "old") - errors(policy, rollout, pairs)).detach()
    advantages = method.credit(rollout, 0).advantages[-1][..., None].expand_as(log_ratio)
    clipped = dgpo.moved_far(log_ratio, advantages, 1e-9)
    assert 0 < clipped.double().mean() < 1
    found = gradient(method.model_copy(update={"clip_range": 1e-9}), policy, rollout)
    policy.zero_grad()
    weights = torch.sigmoid(margins(policy, method, rollout, pairs)).detach()
    (weights[:, None] * advantages * errors(policy, rollout, pairs) * ~clipped).mean().backward()
    torch.testing.assert_close(found, policy.gradient(), rtol=0, atol=1e-14)


def test_clip_acts_only_in_the_direction_of_the_advantage() -> None:
    log_ratio = torch.tensor([0.2, -0.2, 0.2, -0.2]).double()
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    assert dgpo.moved_far(log_ratio, advantages, 0.1).tolist() == [True, False, False, True]


def test_T32d_shared_noise_lowers_the_variance_of_the_gradient() -> None:
    policy = Perceptron()
    method = DGPO(**PLAIN)
    rollout = rolled_out(method, policy)
    close = rollout.states[-1].mean(1, keepdim=True) + 0.1 * rollout.states[-1]  # samples of a prompt are alike
    rollout = replace(rollout, states=(close,))
    credit = method.credit(rollout, 0)

    def spread(shared: bool) -> float:
        found = []
        for step in range(40):
            policy.zero_grad()
            for loss in DGPO(**PLAIN, shared_pairs=shared).losses(policy, rollout, credit, step):
                loss.value.backward()
            found.append(policy.gradient())
        return float(torch.stack(found).var(0).sum())

    assert spread(True) < spread(False) / 4


def test_T14_the_kl_to_the_base_is_charted_and_adds_its_gradient() -> None:
    policy = moved(0.05)
    plain, method = DGPO(**PLAIN), DGPO(**PLAIN | {"kl_weight": 0.5})
    rollout = rolled_out(method, policy)
    rollout = replace(rollout, rewards=torch.ones(3, GROUP).double())
    assert gradient(plain, policy, rollout).abs().max() == 0
    found = gradient(method, policy, rollout)
    pairs = drawn(method, rollout)
    at = matching.noised(rollout, pairs, torch.arange(pairs.sigma.numel()))
    policy.zero_grad()
    gap = matching.velocity(policy, rollout, at) - matching.velocity(policy, rollout, at, "reference")
    (0.5 * (gap**2).mean()).backward()
    torch.testing.assert_close(found, policy.gradient(), rtol=0, atol=1e-14)
    (loss,) = method.losses(policy, rollout, method.credit(rollout, 0), 0)
    assert loss.metrics["train/kl_ref"] == pytest.approx(float((gap**2).mean().detach()))


def test_only_the_weights_that_are_compared_are_evaluated() -> None:
    policy = Perceptron()
    for options, forwards in (
        ({}, 3),
        ({"clip_range": None}, 2),
        ({"clip_range": None, "kl_weight": 0.0}, 2),
        ({"reference": "old"}, 3),
        ({"reference": "old", "kl_weight": 0.0}, 2),
    ):
        method = DGPO(group_size=GROUP, **options)
        rollout = rolled_out(method, policy)
        policy.batches.clear()
        gradient(method, policy, rollout)
        # 3 groups of 4 at 4 levels
        assert sum(policy.batches) == forwards * 3 * GROUP * 4
        cost = method.training_cost(rollout.plan)
        assert cost.trained + cost.evaluated == forwards * GROUP * 4


def test_T32_a_moving_reference_is_the_old_weights() -> None:
    policy = moved(0.05)
    method = DGPO(**PLAIN, reference="old")
    rollout = rolled_out(method, policy)
    policy.track_old(0.0)
    losses = list(method.losses(policy, rollout, method.credit(rollout, 0), 0))
    assert losses[-1].metrics["train/preference_weight"] == 0.5


def test_old_weights_follow_each_optimizer_step() -> None:
    """Decay min(0.3, 0.001 k) after step k: with two updates a rollout, training step 20 ends k = 41 and 42."""
    assert dgpo.old_decay(1, 0.3) == 0.001
    assert dgpo.old_decay(299, 0.3) == pytest.approx(0.299)
    assert dgpo.old_decay(1000, 0.3) == 0.3
    policy = Perceptron()
    method = DGPO(**PLAIN, updates_per_rollout=2)
    rollout = rolled_out(method, policy)
    decays: list[float] = []
    policy.track_old = decays.append  # type: ignore[method-assign]
    for loss in method.losses(policy, rollout, method.credit(rollout, 20), 20):
        assert len(decays) == 0 if not decays else loss.update
    assert decays == [pytest.approx(0.041), pytest.approx(0.042)]


def test_old_weights_sample_after_the_switch() -> None:
    grid = flow.grid(10)
    assert DGPO().plan(200, grid).weights == "current"
    assert DGPO().plan(201, grid).weights == "old"
    assert DGPO(updates_per_rollout=2).plan(101, grid).weights == "old"


def test_levels_end_at_t_min_in_unshifted_time() -> None:
    """The release's trunc_steps 6 of 10: indices 0 to 6, also on a shifted grid; every draw is of 4 different ones."""
    grid = flow.grid(10, 3.0)
    assert torch.equal(dgpo.candidates(grid, 0.4, 4), grid[:7])
    assert torch.equal(dgpo.candidates(grid, 0.0, 4), grid[:10])
    method = DGPO(group_size=GROUP)
    rollout = sampled(Perceptron(), method.plan(0, grid), PROMPTS)
    seen = [drawn(method, rollout, step).sigma for step in range(30)]
    assert {float(s) for sigma in seen for s in sigma.unique()} == set(grid[:7].tolist())
    assert all(len(sigma.unique()) == 4 and (sigma == sigma[:1, :1]).all() for sigma in seen)
    with pytest.raises(ValueError, match=r"only 3 of the 5 levels lie above t_min 0\.5"):
        DGPO(t_min=0.5).plan(0, flow.grid(5))


def test_rollouts_are_ode_chains_of_which_the_ends_are_kept() -> None:
    plan = DGPO().plan(0, flow.grid(10))
    assert plan.widths == [24] * 11
    assert not (plan.rates > 0).any()
    assert (plan.solver, plan.keep, plan.shared_noise) == ("dpm2m", "last", False)
    noisy = DGPO(solver="sde").plan(0, flow.grid(10))
    assert (noisy.rates[:-1] > 0).all()
    assert noisy.rates[-1] == 0


def test_credit_is_the_leaves_alone() -> None:
    method, policy = DGPO(group_size=GROUP), Perceptron()
    rollout = rolled_out(method, policy)
    credit = method.credit(rollout, 0)
    assert [bool(keep.any()) for keep in credit.keep] == [False] * 9 + [True]
    assert credit.keep[-1].all()
    assert all(torch.equal(value, rollout.rewards) for value in credit.values)
    assert len(credit.values) == 11
    torch.testing.assert_close(credit.advantages[-1].std(1, correction=0), torch.ones(3).double())


@pytest.mark.parametrize(
    "wrong", [{"beta": 0}, {"t_min": 1.0}, {"reference": "none"}, {"clip_dsm": 0.1}, {"group_size": 1}]
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DGPO(**wrong)


def test_a_micro_batch_smaller_than_a_group_is_refused() -> None:
    with pytest.raises(ValueError, match="micro_batch: 16"):
        DGPO(micro_batch=16).plan(0, flow.grid(10))
