from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import flow
from backend.methods import dpo
from backend.methods.dpo import DPO
from backend.types import Loss, Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef", "gh")
GROUP = 4


def rolled_out(policy: Perceptron, rewards: list[list[float]] | None = None) -> Rollout:
    rollout = sampled(policy, DPO(group_size=GROUP).plan(0, flow.grid(8)), PROMPTS)
    return rollout if rewards is None else replace(rollout, rewards=torch.tensor(rewards).double())


def losses(method: DPO, policy: Perceptron, rollout: Rollout, step: int = 0) -> list[Loss]:
    return list(method.losses(policy, rollout, method.credit(rollout, step), step))


def gradient(method: DPO, policy: Perceptron, rollout: Rollout) -> Tensor:
    policy.zero_grad()
    for loss in losses(method, policy, rollout):
        loss.value.backward()
    return policy.gradient()


@pytest.mark.parametrize("time_sampling", ["uniform", "logit_normal"])
def test_T43_at_the_reference_the_loss_is_log_2_and_the_swapped_pair_has_the_opposite_gradient(
    time_sampling: str,
) -> None:
    policy = Perceptron()
    method = DPO(group_size=GROUP, time_sampling=time_sampling)
    rollout = rolled_out(policy)
    (loss,) = losses(method, policy, rollout)
    assert loss.value.item() == pytest.approx(math.log(2))
    found = gradient(method, policy, rollout)
    assert found.abs().max() > 1e-3
    swapped = replace(rollout, rewards=-rollout.rewards)
    torch.testing.assert_close(gradient(method, policy, swapped), -found, rtol=0, atol=1e-13)


def test_T43_a_constant_in_both_errors_does_not_matter() -> None:
    better, worse = torch.randn(2, 5, generator=torch.Generator().manual_seed(0)).double()
    loss = dpo.preference_loss(better, worse, 10.0)
    torch.testing.assert_close(dpo.preference_loss(better + 3, worse + 3, 10.0), loss)
    # a margin of 0.2: -log sigmoid(10 / 2 * 0.2) = log(1 + e^-1)
    assert dpo.preference_loss(torch.tensor(-0.2), torch.tensor(0.0), 10.0) == pytest.approx(math.log1p(math.exp(-1)))


def test_the_best_and_the_worst_are_the_pair_and_equal_rewards_make_none() -> None:
    policy, method = Perceptron(), DPO(group_size=GROUP)
    rollout = rolled_out(policy, [[1, 3, 2, 0], [5, 5, 5, 5], [1, 1, 0, 0]])
    credit = method.credit(rollout, 0)
    assert credit.advantages[-1].tolist() == [[0, 1, 0, -1], [0, 0, 0, 0], [1, 0, -1, 0]]
    policy.batches.clear()
    (loss,) = losses(method, policy, rollout)
    assert loss.metrics["train/skipped_groups"] == pytest.approx(1 / 3)
    # 2 pairs of 2 samples at 4 levels, with current and reference weights
    assert sum(policy.batches) == 2 * (2 * 2 * 4)
    assert losses(method, policy, rolled_out(policy, [[1.0] * 4] * 3)) == []


def test_only_the_pair_matters() -> None:
    policy, method = Perceptron(), DPO(group_size=GROUP)
    rollout = rolled_out(policy, [[0, 1, 2, 3]] * 3)
    found = gradient(method, policy, rollout)
    others = rollout.states[-1].clone()
    others[:, 1:3] += 1
    torch.testing.assert_close(gradient(method, policy, replace(rollout, states=(others,))), found)


@pytest.mark.parametrize("every", [0, 40])
def test_the_reference_is_the_base_or_the_weights_of_the_last_sync(every: int) -> None:
    policy, method = Perceptron(), DPO(group_size=GROUP, sync_reference_every=every)
    rollout = rolled_out(policy)
    with torch.no_grad():
        policy.layers[2].bias += 0.5
    assert losses(method, policy, rollout, 38)[0].value.item() != pytest.approx(math.log(2))
    (last,) = losses(method, policy, rollout, 39)
    assert last.update
    (after,) = losses(method, policy, rollout, 40)
    assert (after.value.item() == pytest.approx(math.log(2))) == (every == 40)


def test_micro_batches_add_up() -> None:
    """T16, with pairs that are never cut."""
    policy, rollout = Perceptron(), rolled_out(Perceptron())
    whole = gradient(DPO(group_size=GROUP), policy, rollout)
    policy.batches.clear()
    found = gradient(DPO(group_size=GROUP, micro_batch=5), policy, rollout)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-13)
    assert set(policy.batches) == {4}
    with pytest.raises(ValueError, match="micro_batch: 1 is too small"):
        DPO(micro_batch=1).plan(0, flow.grid(4))


def test_the_cost_is_the_forwards_that_are_run() -> None:
    cost = DPO().training_cost(DPO().plan(0, flow.grid(8)))
    assert (cost.trained, cost.evaluated, cost.updates) == (8, 8, 1)


def test_pitfall_25_samples_that_were_not_judged_make_no_pair() -> None:
    failed = math.nan
    rollout = rolled_out(Perceptron(), [[failed, 1.0, 3.0, 2.0], [failed, failed, failed, 5.0], [failed] * 4])
    advantages = DPO(group_size=GROUP).credit(rollout, 0).advantages[-1]
    assert advantages.tolist() == [[0, -1, 1, 0], [0] * 4, [0] * 4]
