"""BranchGRPO on a small perceptron: counts of the paper, pruning, the mix window, refusals, and that it learns."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from backend import flow
from backend.methods.branchgrpo import BranchGRPO, MixWindow
from backend.methods.dancegrpo import DanceGRPO
from backend.methods.pruning import DepthWindow, Extreme, NoPruning, ParentTop1, Pruning
from backend.methods.settings import PolicyGradient
from backend.types import Credit, Rollout
from tests.backend.toy import Perceptron, sampled

SIGMAS = flow.grid(20, 3.0)
PROMPTS = ("a", "bcdef")


def trained(credit: Credit) -> list[int]:
    """Kept edges of one prompt at each step."""
    return [int(keep.sum()) // len(keep) for keep in credit.keep]


def rolled(method: PolicyGradient, step: int = 0) -> tuple[Perceptron, Rollout]:
    policy = Perceptron()
    return policy, sampled(policy, method.plan(step, SIGMAS), PROMPTS)


def test_T17_the_default_is_the_papers_dense_tree() -> None:
    plan = BranchGRPO().plan(0, SIGMAS)
    assert plan.forwards_per_prompt == 203
    assert plan.num_leaves == 16
    assert sum(plan.widths) == 219
    assert plan.rates.tolist() == [0.3] * 19 + [0.0]
    assert plan.spread == 4.0


def test_flow_sde_rates_follow_the_grid() -> None:
    rates = BranchGRPO(sde="flow", eta=0.7).plan(0, SIGMAS).rates
    sigma = SIGMAS[5]
    assert rates[5].item() == pytest.approx(0.7 * (sigma / (1 - sigma)).sqrt().item())
    assert rates[0] == rates[1]  # sigma_1 stands in for sigma_0 = 1
    assert rates[-1] == 0


@pytest.mark.parametrize(
    ("pruning", "expected"),
    [
        (NoPruning(), 202),  # 218 edges less the 16 of the deterministic last step
        (ParentTop1(), 130),  # 138 less 8
        (Extreme(leaves=4), 130),
        (Extreme(leaves=2), 58 + 4 * 9),
        (DepthWindow(), 202 - 4 * 16),
        (DepthWindow(width=2, start=3, stop=1, stride=-1), 202 - 2 - 4),  # depths 3 and 4
    ],
)
def test_T25_pruning_changes_the_edges_and_nothing_else(pruning: Pruning, expected: int) -> None:
    method = BranchGRPO(pruning=pruning)
    _, rollout = rolled(method)
    credit, whole = method.credit(rollout, 0), BranchGRPO().credit(rollout, 0)
    assert sum(trained(credit)) == expected
    for one, other in zip((*credit.advantages, *credit.values), (*whole.advantages, *whole.values), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("step", "first"), [(0, 10), (29, 10), (30, 11), (60, 12), (179, 15), (180, 16), (9000, 16)])
def test_T25_the_depth_window_slides_towards_the_data(step: int, first: int) -> None:
    method = BranchGRPO(pruning=DepthWindow())
    counts = trained(method.credit(rolled(method)[1], step))
    depths = [depth for depth, count in enumerate(counts, start=1) if count == 0]
    assert depths == sorted({*range(first, first + 4), 20})


@pytest.mark.parametrize(("step", "first"), [(0, 15), (59, 14), (60, 13), (180, 9), (9000, 9)])
def test_T25_a_negative_stride_slides_towards_the_noise(step: int, first: int) -> None:
    method = BranchGRPO(pruning=DepthWindow(start=15, stride=-1, stop=9))
    counts = trained(method.credit(rolled(method)[1], step))
    assert [depth for depth, count in enumerate(counts, start=1) if count == 0] == [*range(first, first + 4), 20]


@pytest.mark.parametrize(
    ("step", "window"),
    [(0, range(0, 4)), (29, range(0, 4)), (30, range(1, 5)), (150, range(5, 9)), (9000, range(15, 19))],
)
def test_T26_only_splits_and_the_window_are_stochastic(step: int, window: range) -> None:
    method = BranchGRPO(mix=MixWindow())
    stochastic = sorted({0, 3, 6, 9, *window})
    plan = method.plan(step, SIGMAS)
    assert plan.rates.nonzero().flatten().tolist() == stochastic
    _, rollout = rolled(method, step)
    for i, logp in enumerate(rollout.logps):
        assert bool(logp.isnan().all()) == (i not in stochastic)
    credit = method.credit(rollout, step)
    assert [i for i, count in enumerate(trained(credit)) if count] == stochastic
    assert all(value.isfinite().all() for value in credit.values)


def test_T26_the_mean_over_windows_is_the_papers_cost() -> None:
    widths = BranchGRPO().plan(0, SIGMAS).widths[1:]
    edges = [sum(widths[i] for i in {0, 3, 6, 9, *range(start, start + 4)}) for start in range(17)]
    assert sum(edges) / 17 / 16 == pytest.approx(4.26, abs=0.005)  # the paper reports 4.25 evaluations a leaf


def test_T26_a_window_of_all_steps_is_plain_branchgrpo() -> None:
    plain, mixed = BranchGRPO(), BranchGRPO(mix=MixWindow(window=19))
    assert torch.equal(plain.plan(77, SIGMAS).rates, mixed.plan(77, SIGMAS).rates)
    (_, one), (_, other) = rolled(plain), rolled(mixed)
    assert torch.equal(one.states[-1], other.states[-1])


def test_T20_released_split_noise_is_s_times_too_wide_for_its_density() -> None:
    """Siblings at step 0 are mean + 4 std eta: z = (x' - mean) / std has variance 16, so log p averages -16 / 2."""
    method = BranchGRPO(split_steps=(0,), branches=64, split_noise="released")
    rollout = sampled(Perceptron(), method.plan(0, SIGMAS), [f"prompt {number}" for number in range(30)])
    std = 0.3 * float(SIGMAS[0] - SIGMAS[1]) ** 0.5
    assert float(rollout.states[1].var(1).mean().sqrt()) == pytest.approx(4 * std, rel=0.03)
    density = -8 - math.log(std) - 0.5 * math.log(2 * math.pi)
    assert float(rollout.logps[0].mean()) == pytest.approx(density, rel=0.03)
    std = 0.3 * float(SIGMAS[1] - SIGMAS[2]) ** 0.5  # later steps have the noise of their density
    density = -0.5 - math.log(std) - 0.5 * math.log(2 * math.pi)
    assert float(rollout.logps[1].mean()) == pytest.approx(density, rel=0.03)


def test_T21_single_node_depths_are_not_trained() -> None:
    method = BranchGRPO(split_steps=(9, 12, 15, 18))
    assert trained(method.credit(rolled(method)[1], 0)) == [0] * 9 + [2] * 3 + [4] * 3 + [8] * 3 + [16, 0]


def test_T27_a_tree_that_splits_once_at_the_start_is_group_grpo() -> None:
    branch = BranchGRPO(split_steps=(0,), branches=12, fusion_beta=0.0)
    _, rollout = rolled(branch)
    rewards = rollout.rewards
    expected = (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, keepdim=True)
    credit = branch.credit(rollout, 0)
    for advantage in credit.advantages:
        torch.testing.assert_close(advantage, expected, rtol=1e-6, atol=0)
    flat = sampled(Perceptron(), DanceGRPO().plan(0, SIGMAS), PROMPTS)
    dance = DanceGRPO().credit(replace(flat, rewards=rewards), 0)
    for one, other in zip(credit.advantages, dance.advantages, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_fusion_settings_reach_the_values() -> None:
    _, rollout = rolled(BranchGRPO())
    mean = BranchGRPO(fusion_beta=0.0).credit(rollout, 0).values[0]
    torch.testing.assert_close(mean, rollout.rewards.mean(1, keepdim=True))
    by_mean, by_sum = (BranchGRPO(fusion_reduction=name).credit(rollout, 0).values[0] for name in ("mean", "sum"))
    four_dims = BranchGRPO(fusion_beta=4.0).credit(rollout, 0).values[0]
    assert not torch.allclose(by_mean, by_sum)
    torch.testing.assert_close(by_sum, four_dims)


def test_T10_the_loss_starts_at_ratio_one_and_covers_the_kept_edges() -> None:
    method = BranchGRPO(updates_per_rollout=3, micro_batch=50)
    policy, rollout = rolled(method)
    policy.batches.clear()
    losses = list(method.losses(policy, rollout, method.credit(rollout, 0), 0))
    assert sum(policy.batches) == 2 * (203 - 16)  # each parent once, but for those of the last step
    assert sum(loss.update for loss in losses) == 3
    first = next(loss for loss in losses if loss.update)
    assert first.metrics["train/ratio_mean"] == 1.0


@pytest.mark.parametrize(
    ("fields", "culprit"),
    [
        ({"split_steps": [3, 0]}, "split_steps: steps must rise"),
        ({"split_steps": [0, 3, 3]}, "split_steps: steps must rise"),
        ({"split_steps": [-1, 3]}, "split_steps: steps must rise"),
        ({"split_steps": []}, "split_steps"),
        ({"branches": 1}, "branches"),
        ({"branches": 8}, "4096 leaves, more than 1024"),
        ({"spread": 0}, "spread"),
        ({"spred": 4}, "spred"),
        ({"pruning": {"kind": "depth", "widht": 4}}, "pruning.depth.widht"),
        ({"pruning": {"kind": "bonsai"}}, "pruning"),
    ],
)
def test_wrong_settings_are_refused_by_name(fields: dict[str, object], culprit: str) -> None:
    with pytest.raises(ValidationError, match=culprit):
        BranchGRPO.model_validate(fields)


@pytest.mark.parametrize(
    ("fields", "num_steps", "message"),
    [
        ({}, 10, "split_steps: step 9 cannot split in 10 sampling steps"),
        ({"mix": {"window": 10}}, 10, "split_steps"),
        ({"mix": {"window": 11}}, 11, "mix.window: a window of 11 steps does not fit the 10"),
        ({"pruning": {"kind": "depth", "start": 17}}, 20, "pruning.start: a window of 4 depths from 17"),
        ({"pruning": {"kind": "depth", "stop": 18}}, 20, "pruning.stop"),
    ],
)
def test_settings_that_do_not_fit_the_sampling_steps_are_refused(
    fields: dict[str, object], num_steps: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        BranchGRPO.model_validate(fields).plan(0, flow.grid(num_steps))


def test_a_split_at_the_last_stochastic_step_is_allowed() -> None:
    assert BranchGRPO(split_steps=(0, 8)).plan(0, flow.grid(10)).num_leaves == 4


def test_settings_survive_the_way_to_json_and_back() -> None:
    method = BranchGRPO(pruning=DepthWindow(start=11), mix=MixWindow(window=3), split_steps=(1, 2))
    union = TypeAdapter(BranchGRPO | DanceGRPO)
    assert union.validate_json(method.model_dump_json()) == method
    with pytest.raises(ValidationError):
        method.eta = 0.5


def learn(method: PolicyGradient, shuffled: bool) -> tuple[float, float]:
    """Rise of the mean reward of a perceptron over 60 rollouts, and its standard error."""
    policy, sigmas, prompts = Perceptron(), flow.grid(8, 3.0), ("a", "bcd", "efghij", "klmnopqr")
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    means: list[Tensor] = []
    for step in range(60):
        rollout = sampled(policy, method.plan(step, sigmas), prompts, seed=step)
        means.append(rollout.rewards.mean(1))
        if shuffled:
            order = torch.rand(rollout.rewards.shape, generator=torch.Generator().manual_seed(step)).argsort(1)
            rollout = replace(rollout, rewards=rollout.rewards.gather(1, order))
        for loss in method.losses(policy, rollout, method.credit(rollout, step), step):
            loss.value.backward()
            if loss.update:
                optimizer.step()
                optimizer.zero_grad()
    before, after = torch.cat(means[:10]), torch.cat(means[-10:])
    error = (before.var() / len(before) + after.var() / len(after)).sqrt()
    return float(after.mean() - before.mean()), float(error)


@pytest.mark.parametrize(
    "method",
    [BranchGRPO(split_steps=(0, 2, 4), eta=0.6), DanceGRPO(group_size=8, eta=0.6)],
    ids=lambda method: method.name,
)
def test_T46_the_reward_rises_and_does_not_when_rewards_are_shuffled(method: PolicyGradient) -> None:
    rise, error = learn(method, shuffled=False)
    assert rise > 10 * error
    assert abs(learn(method, shuffled=True)[0]) < rise / 4  # noise drives Adam on a walk, but nowhere in particular


def test_T48_the_same_seed_gives_the_same_losses() -> None:
    method = BranchGRPO(updates_per_rollout=2)
    traces = []
    for _ in range(2):
        policy, rollout = rolled(method)
        traces.append([loss.value.item() for loss in method.losses(policy, rollout, method.credit(rollout, 3), 3)])
    assert traces[0] == traces[1]
