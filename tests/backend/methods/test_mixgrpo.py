"""MixGRPO: noise in the window alone; Flash: step counts, grids and the bound on its gain."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from backend import flow
from backend.methods.mixgrpo import Flash, MixGRPO
from backend.methods.window_schedule import Frozen, Progressive, Random
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(25, 3.0)
PROMPTS = ("a", "bcdef")


@pytest.mark.parametrize(("step", "first"), [(0, 0), (25, 1), (130, 5), (9999, 20)])
def test_T26_only_the_window_has_noise_and_is_trained(step: int, first: int) -> None:
    method = MixGRPO(group_size=3)
    plan = method.plan(step, SIGMAS)
    window = [*range(first, first + 4)]
    assert plan.rates.nonzero().flatten().tolist() == window
    assert torch.equal(plan.rates[window], flow.flow_sde_rates(SIGMAS, 0.7)[window])
    rollout = sampled(Perceptron(), plan, PROMPTS)
    assert [i for i, logp in enumerate(rollout.logps) if not logp.isnan().any()] == window
    assert [i for i, keep in enumerate(method.credit(rollout, step).keep) if keep.any()] == window


def test_samples_are_equal_up_to_the_window_which_parts_them() -> None:
    rollout = sampled(Perceptron(), MixGRPO(group_size=3).plan(125, SIGMAS), PROMPTS)  # window 5 to 8
    for level in range(6):
        assert (rollout.states[level] - rollout.states[level][:, :1]).abs().max() < 1e-14
    assert len(rollout.states[6][0].flatten(1).unique(dim=0)) == 3


@pytest.mark.parametrize("flash", [None, Flash()])
def test_a_shared_prefix_gives_the_same_samples_and_gradient_for_fewer_forwards(flash: Flash | None) -> None:
    apart, shared = (
        MixGRPO(group_size=3, schedule=Progressive(every=1), flash=flash, shared_prefix=one) for one in (False, True)
    )
    plan = shared.plan(6, SIGMAS)
    assert plan.widths == [1] * 7 + [3] * (plan.num_steps - 6)
    assert apart.plan(6, SIGMAS).forwards_per_prompt - plan.forwards_per_prompt == 7 * 2
    found = []
    for method in (apart, shared):
        policy = Perceptron()
        rollout = sampled(policy, method.plan(6, SIGMAS), PROMPTS)
        for loss in method.losses(policy, rollout, method.credit(rollout, 6), 6):
            loss.value.backward()
        found.append((rollout.states[-1], policy.gradient()))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-12)
    with pytest.raises(ValidationError, match=r"shared_prefix: .* set shared_noise to true"):
        MixGRPO(shared_prefix=True, shared_noise=False)


def test_each_reward_is_standardised_before_the_sum() -> None:
    """Two rewards of three samples, 0 1 2 and 0 0 300, with weights 1 and 2: the scale of the second is lost."""
    method = MixGRPO(group_size=3)
    rollout = sampled(Perceptron(), method.plan(0, SIGMAS), ("a",))
    parts = {"small": torch.tensor([[0.0, 1.0, 2.0]]).double(), "large": torch.tensor([[0.0, 0.0, 300.0]]).double()}
    total = parts["small"] + 2 * parts["large"]
    rollout = replace(rollout, rewards=total, parts=parts, part_weights={"small": 1.0, "large": 2.0})
    # z-scores -1 0 1, and -1 -1 2 over sqrt 3
    expected = torch.tensor([[-1 - 2 / 3**0.5, -2 / 3**0.5, 1 + 4 / 3**0.5]]).double()
    torch.testing.assert_close(method.credit(rollout, 0).advantages[0], expected, rtol=0, atol=1e-6)
    # after the sum: 0 1 602 have mean 201 and squared deviations 40401, 40000 and 160801
    expected = torch.tensor([[-201.0, -200.0, 401.0]]).double() / (241202 / 2) ** 0.5
    summed = MixGRPO(group_size=3, advantage_mode="group").credit(rollout, 0).advantages[0]
    torch.testing.assert_close(summed, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("compression", [0.2, 0.4, 0.6, 1.0])
@pytest.mark.parametrize("step", [0, 25, 250, 9999])
def test_flash_keeps_the_steps_up_to_the_window_and_shortens_the_rest(step: int, compression: float) -> None:
    method, plain = MixGRPO(flash=Flash(compression=compression)), MixGRPO().plan(step, SIGMAS)
    plan, end = method.plan(step, SIGMAS), min(step // 25, 20) + 4
    assert plan.num_steps == end + math.ceil(round((25 - end) * compression, 6))  # T~ = l + w + ceil((T - l - w) r)
    assert torch.equal(plan.sigmas[: end + 1], SIGMAS[: end + 1])
    assert torch.equal(plan.rates[:end], plain.rates[:end])
    assert not plan.rates[end:].any()
    assert plan.sigmas[-1] == 0
    assert (plan.sigmas.diff() < 0).all()
    assert plan.num_leaves == 12
    assert plan.forwards_per_prompt == 12 * plan.num_steps
    bound = 25 / (4 + 21 * compression)
    assert 25 / plan.num_steps <= bound + 1e-12


def test_flash_counts_at_the_first_place() -> None:
    # 4 + ceil(21 x 0.4) = 13 and 4 + ceil(21 x 0.2) = 9 of 25 steps
    assert MixGRPO(flash=Flash()).plan(0, SIGMAS).num_steps == 13
    assert MixGRPO(flash=Flash(compression=0.2), schedule=Frozen()).plan(700, SIGMAS).num_steps == 9


def test_flash_leaves_a_subset_of_the_grid_where_the_reduction_is_whole() -> None:
    plan = MixGRPO(window=5, flash=Flash(compression=0.5)).plan(0, SIGMAS)  # 20 steps after the window become 10
    torch.testing.assert_close(plan.sigmas, torch.cat([SIGMAS[:5], SIGMAS[5::2]]), rtol=0, atol=1e-15)
    whole = MixGRPO(flash=Flash(compression=1.0)).plan(0, SIGMAS)
    torch.testing.assert_close(whole.sigmas, SIGMAS, rtol=0, atol=1e-15)


def test_flash_solves_with_euler_before_the_window_and_with_second_order_after_it() -> None:
    moving = Progressive(every=1)
    plain, flash = (
        sampled(Perceptron(), MixGRPO(group_size=2, schedule=moving, flash=one).plan(6, SIGMAS), PROMPTS)
        for one in (None, Flash(compression=1.0))
    )
    for level in range(12):  # the window is 6 to 9, and the first step after it, whose memory is empty, is Euler's
        torch.testing.assert_close(flash.states[level], plain.states[level], rtol=0, atol=1e-13)
    assert (flash.states[12] - plain.states[12]).abs().max() > 1e-6
    policy, x, before = Perceptron(), flash.states[10][0], None
    for step in range(10, 25):
        sigma, sigma_next = SIGMAS[step : step + 2]
        cond = flash.cond.take(torch.zeros(2, dtype=torch.long))
        x0 = flow.predict_x0(x, policy.velocity(x, sigma.expand(2), cond), sigma)
        x, before = flow.dpm_2m_step(x, x0, before, sigma, sigma_next), (x0, float(sigma))
    torch.testing.assert_close(flash.states[-1][0], x.detach(), rtol=0, atol=1e-12)


def test_refusals_name_the_field() -> None:
    with pytest.raises(ValueError, match="window: 10 steps do not fit the 9 that can be stochastic"):
        MixGRPO(window=10).plan(0, flow.grid(10))
    assert MixGRPO(window=9).plan(0, flow.grid(10)).rates.count_nonzero() == 9
    with pytest.raises(ValidationError, match=r"schedule.random.every"):
        MixGRPO.model_validate({"schedule": {"kind": "random", "every": 25}})
    with pytest.raises(ValidationError, match="compression"):
        MixGRPO.model_validate({"flash": {"compression": 0}})
    assert MixGRPO.model_validate({"schedule": {"kind": "random"}}).schedule == Random()


def test_T14_a_kl_of_the_window_holds_the_weights_near_the_base() -> None:
    method, policy = MixGRPO(group_size=4, kl_weight=10.0, advantage_mode="group"), Perceptron()
    plan = method.plan(0, SIGMAS)
    rollout = sampled(policy, plan, ("a",))
    zero = replace(rollout, rewards=torch.zeros_like(rollout.rewards))
    with torch.no_grad():
        policy.layers[2].bias += 0.3
    policy.batches.clear()
    (loss,) = method.losses(policy, zero, method.credit(zero, 0), 0)
    loss.value.backward()
    assert (policy.layers[2].bias.grad > 0).all()  # descent lowers the bias, back to where it was
    # 4 samples of 4 steps, each once more with the reference weights
    assert sum(policy.batches) == 32 == method.training_cost(plan).trained + method.training_cost(plan).evaluated
    assert MixGRPO().training_cost(plan).evaluated == 0
