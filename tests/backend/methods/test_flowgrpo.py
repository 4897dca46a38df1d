"""Flow-GRPO: its group, global advantages, the KL, and the windows of its Fast form."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from backend import flow
from backend.methods.flowgrpo import FastWindow, FlowGRPO
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(10, 3.0)
PROMPTS = ("a", "bcdef")


def test_the_default_is_the_sd35_recipe() -> None:
    plan = FlowGRPO().plan(0, SIGMAS)
    assert plan.widths == [24] * 11
    assert torch.equal(plan.rates[:-1], flow.flow_sde_rates(SIGMAS, 0.7)[:-1])
    assert plan.rates[-1] == 0
    assert not plan.shared_noise
    method = FlowGRPO(group_size=4)
    rollout = sampled(Perceptron(), method.plan(0, SIGMAS), PROMPTS)
    assert [bool(keep.all()) for keep in method.credit(rollout, 0).keep] == [True] * 9 + [False]


def test_advantages_are_over_the_biased_std_of_all_samples() -> None:
    """Groups 0 2 and 0 4: means 1 and 2, and of the four the variance (2.25 + 0.25 + 2.25 + 6.25) / 4 = 2.75."""
    method = FlowGRPO(group_size=2)
    rollout = sampled(Perceptron(), method.plan(0, SIGMAS), PROMPTS)
    rollout = replace(rollout, rewards=torch.tensor([[0.0, 2.0], [0.0, 4.0]]).double())
    expected = torch.tensor([[-1.0, 1.0], [-2.0, 2.0]]).double() / 2.75**0.5
    torch.testing.assert_close(method.credit(rollout, 0).advantages[3], expected, rtol=0, atol=1e-7)
    group = FlowGRPO(group_size=2, advantage_mode="group").credit(rollout, 0).advantages[3]
    torch.testing.assert_close(group, torch.tensor([[-1.0, 1.0]] * 2).double(), rtol=0, atol=1e-7)


def test_T14_the_kl_holds_the_weights_near_the_base() -> None:
    method, policy = FlowGRPO(group_size=4, kl_weight=10.0, micro_batch=128), Perceptron()
    rollout = sampled(policy, method.plan(0, SIGMAS), PROMPTS)
    zero = replace(rollout, rewards=torch.zeros_like(rollout.rewards))
    with torch.no_grad():
        policy.layers[2].bias += 0.3
    (loss,) = method.losses(policy, zero, method.credit(zero, 0), 0)
    assert loss.metrics["train/loss"] == pytest.approx(10 * loss.metrics["train/kl_ref"])
    loss.value.backward()
    assert (policy.layers[2].bias.grad > 0).all()  # descent lowers the bias, back to where it was
    gaussian = method.model_copy(update={"kl_form": "gaussian"})
    (true,) = gaussian.losses(policy, zero, method.credit(zero, 0), 0)
    assert true.metrics["train/kl_ref"] > 5 * loss.metrics["train/kl_ref"]  # D is 0.03 to 0.25


def test_the_fast_window_lies_in_the_first_half_and_is_drawn_for_each_training_step() -> None:
    method = FlowGRPO(group_size=2, fast=FastWindow())
    windows = [method.plan(step, SIGMAS).rates.nonzero().flatten().tolist() for step in range(60)]
    assert {tuple(window) for window in windows} == {(0, 1, 2), (1, 2, 3), (2, 3, 4)}
    assert windows == [method.plan(step, SIGMAS).rates.nonzero().flatten().tolist() for step in range(60)]
    rollout = sampled(Perceptron(), method.plan(7, SIGMAS), PROMPTS)
    assert [i for i, keep in enumerate(method.credit(rollout, 7).keep) if keep.any()] == windows[7]
    fixed = FlowGRPO(fast=FastWindow(size=2, first=7, stop=9)).plan(3, SIGMAS)
    assert fixed.rates.nonzero().flatten().tolist() == [7, 8]


def test_a_shared_prefix_is_one_path_that_fans_out() -> None:
    method = FlowGRPO(group_size=4, shared_noise=True, fast=FastWindow(size=2, first=3, stop=5, shared_prefix=True))
    plan = method.plan(0, SIGMAS)
    assert plan.widths == [1] * 4 + [4] * 7
    assert plan.rates.nonzero().flatten().tolist() == [3, 4]
    assert plan.forwards_per_prompt == 4 + 4 * 6
    policy = Perceptron()
    rollout = sampled(policy, plan, PROMPTS)
    credit = method.credit(rollout, 0)
    assert [int(keep.sum()) for keep in credit.keep] == [0, 0, 0, 8, 8, 0, 0, 0, 0, 0]
    policy.batches.clear()
    list(method.model_copy(update={"kl_weight": 0.0}).losses(policy, rollout, credit, 0))
    assert sum(policy.batches) == 2 * (1 + 4)  # the split's parent and the four of the second step, for each prompt
    chains = FlowGRPO(group_size=4, shared_noise=True, fast=FastWindow(size=2, first=3, stop=5))
    flat = sampled(Perceptron(), chains.plan(0, SIGMAS), PROMPTS)
    torch.testing.assert_close(rollout.states[-1], flat.states[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("fast", "message"),
    [
        (FastWindow(stop=10), "fast.stop: the range ends before step 10, but step 9, the last, is deterministic"),
        (FastWindow(size=6), "fast.size: a window of 6 steps does not fit into steps 0 to 4"),
        (FastWindow(first=3), "fast.size: a window of 3 steps does not fit into steps 3 to 4"),
    ],
)
def test_windows_that_do_not_fit_are_refused(fast: FastWindow, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FlowGRPO(fast=fast).plan(0, SIGMAS)


def test_a_shared_prefix_with_unshared_noise_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"fast.shared_prefix: .* set shared_noise to true"):
        FlowGRPO(fast=FastWindow(shared_prefix=True))


@pytest.mark.parametrize(
    ("fields", "trained", "evaluated"),
    [
        ({"kl_weight": 0.0}, 36, 0),  # 4 samples of 9 stochastic steps
        ({}, 36, 36),  # and the reference
        ({"updates_per_rollout": 3, "replay": True}, 36, 36 + 24),  # and all parts but the first once more
        ({"kl_weight": 0.0, "fast": FastWindow(size=2)}, 8, 0),
        ({"shared_noise": True, "fast": FastWindow(size=2, shared_prefix=True)}, 5, 5),  # one parent at the split
    ],
)
def test_the_training_cost_is_what_the_losses_evaluate(fields: dict[str, object], trained: int, evaluated: int) -> None:
    method, policy = FlowGRPO.model_validate({"group_size": 4, **fields}), Perceptron()
    plan = method.plan(0, SIGMAS)
    cost = method.training_cost(plan)
    assert (cost.trained, cost.evaluated, cost.updates) == (trained, evaluated, method.updates_per_rollout)
    rollout = sampled(policy, plan, ("a",))
    policy.batches.clear()
    list(method.losses(policy, rollout, method.credit(rollout, 0), 0))
    assert sum(policy.batches) == trained + evaluated
