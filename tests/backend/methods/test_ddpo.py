"""DDPO: its sampler and what it trains, its statistics across steps, the ratio, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from backend import flow
from backend.history import PromptHistory
from backend.methods.ddpo import DDPO
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(6, 2.0)


def rolled(method: DDPO, policy: Perceptron | None = None) -> Rollout:
    policy = policy or Perceptron()
    rollout = sampled(policy, method.plan(0, SIGMAS), ("a", "bcdef"))
    return replace(rollout, memory=method.remember(policy))


def test_the_plan_is_ddim_chains_from_noises_of_their_own() -> None:
    plan = DDPO(group_size=3).plan(0, SIGMAS)
    assert plan.widths == [3] * 7
    assert plan.noise == "ddim"
    assert plan.rates.tolist() == [1.0] * 5 + [0.0]
    assert len(rolled(DDPO(group_size=3)).states[0][0].flatten(1).unique(dim=0)) == 3


def test_the_first_step_draws_all_its_noise_afresh() -> None:
    # ancestral DDIM from sigma = 1: mean (1 - sigma') x0 and std sigma'
    x, v = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mean, std = flow.mean_std(x, v, 1.0, 0.8, 1.0, "ddim")
    torch.testing.assert_close(mean, 0.2 * (x - v), rtol=0, atol=1e-8)
    assert float(std) == pytest.approx(0.8)


def test_every_stochastic_step_of_every_sample_is_trained_even_of_a_single_one() -> None:
    for group_size in (4, 1):
        method = DDPO(group_size=group_size)
        credit = method.credit(rolled(method), 0)
        keep = torch.stack(credit.keep)
        assert keep[:-1].all()
        assert not keep[-1].any()
        assert torch.stack(credit.advantages).isfinite().all()
    single = torch.stack(DDPO(group_size=1).credit(rolled(DDPO(group_size=1)), 0).advantages)[0, :, 0]
    torch.testing.assert_close(single.abs(), torch.ones(2).double(), rtol=0, atol=1e-4)  # two samples, biased std


def test_a_rollout_is_remembered_once_and_weighs_on_the_next_step() -> None:
    method = DDPO(group_size=2, min_count=4, history=4)
    first = replace(rolled(method), rewards=torch.tensor([[0.0, 2.0], [4.0, 6.0]]).double())
    assert isinstance(first.memory, PromptHistory)
    batch = method.credit(first, 0).advantages[0]  # two rewards a prompt: compared with all four, mean 3, variance 5
    torch.testing.assert_close(batch, torch.tensor([[-3, -1], [1, 3]]).double() / 5**0.5, rtol=0, atol=1e-5)
    own = method.credit(replace(first, rewards=first.rewards + 2), 1).advantages[0]  # 0 2 2 4: mean 2, variance 2
    torch.testing.assert_close(own, torch.tensor([[0, 2], [0, 2]]).double() / 2**0.5, rtol=0, atol=1e-5)
    assert list(first.memory.rewards["a"]) == [0.0, 2.0, 2.0, 4.0]


def test_advantages_are_clipped() -> None:
    method = DDPO(group_size=30, advantage_clip=2.0, history=64)
    rollout = rolled(method)
    spiked = torch.zeros(2, 30, dtype=torch.float64)
    spiked[:, 0] = 1.0
    advantages = method.credit(replace(rollout, rewards=spiked), 0).advantages[0]
    assert float(advantages.max()) == 2.0


def test_T10_the_ratio_is_one_at_the_first_update_and_moves_later() -> None:
    method, policy = DDPO(group_size=4, updates_per_rollout=2, micro_batch=8), Perceptron()
    rollout = rolled(method, policy)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    ends = []
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        torch.autograd.backward(loss.value)
        if loss.update:
            optimizer.step()
            ends.append(loss.metrics)
    assert len(ends) == 2
    assert ends[0]["train/ratio_mean"] == 1.0
    assert ends[0]["rollout_corr/logprob_abs_diff_mean"] < 1e-12
    assert ends[1]["train/ratio_mean"] != 1.0


def test_refusals_name_the_field() -> None:
    with pytest.raises(ValueError, match="min_count: 40 rewards of a prompt are never kept, as history is 32"):
        DDPO(min_count=40)
    with pytest.raises(ValueError, match="sde"):
        DDPO.model_validate({"sde": "flow"})
