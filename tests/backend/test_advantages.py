"""Advantages of each mode, by hand, and what they are invariant to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from backend import advantages
from backend.types import Plan, Rollout
from tests.backend.toy import Perceptron, sampled

MODES: tuple[advantages.Mode, ...] = ("group", "global_std", "per_reward", "gdpo")
SPREAD = 131 / 3  # of 0, 2, 10, 14 about 6.5: (42.25 + 20.25 + 12.25 + 56.25) / 3


def table(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def judged(parts: dict[str, Tensor], weights: dict[str, float] | None = None) -> Rollout:
    """A rollout whose reward is the weighted sum of its parts [P, G]."""
    weights = weights or dict.fromkeys(parts, 1.0)
    num_prompts, group_size = next(iter(parts.values())).shape
    plan = Plan(table([1.0, 0.0])[0], (torch.arange(group_size),), torch.zeros(1))
    total = torch.stack([weights[name] * part for name, part in parts.items()]).sum(0)
    rollout = sampled(Perceptron(), plan, ("a",) * num_prompts)
    return replace(rollout, rewards=total, parts=parts, part_weights=weights)


def random_parts(num_prompts: int = 3, group_size: int = 8, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(2, num_prompts, group_size, generator=generator, dtype=torch.float64)
    return {"shape": drawn[0], "colour": drawn[1] * 5 + 2}


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


def test_group_is_the_z_score_of_each_row() -> None:
    rewards = table([1.0, 2.0, 3.0], [0.0, 0.0, 3.0])  # stds 1 and sqrt 3; biased sqrt(2/3) and sqrt 2
    close(advantages.standardise(rewards), table([-1, 0, 1], [-(3**-0.5), -(3**-0.5), 2 * 3**-0.5]))
    biased = table([-(1.5**0.5), 0, 1.5**0.5], [-(2**-0.5), -(2**-0.5), 2**0.5])
    close(advantages.standardise(rewards, unbiased=False), biased)


def test_pitfall_15_a_pair_is_plus_minus_0_707_unbiased_and_1_biased() -> None:
    pair = table([3.0, 7.0])
    close(advantages.standardise(pair), table([-(0.5**0.5), 0.5**0.5]))
    close(advantages.standardise(pair, unbiased=False), table([-1.0, 1.0]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_pitfall_16_groups_of_one_value_get_zero_even_when_rounding_parts_them(
    mode: advantages.Mode, value: float
) -> None:
    exact = judged({"shape": table([value] * 5, [value] * 5)})
    assert torch.equal(advantages.of(exact, mode, 5.0), torch.zeros(2, 5).double())
    rounded = judged({"shape": table([0.1 + 0.2, 0.3, 0.3], [0.3, 0.1 + 0.2, 0.3])})
    assert torch.equal(advantages.of(rounded, mode, 5.0), torch.zeros(2, 3).double())


@pytest.mark.parametrize("mode", MODES)
def test_a_single_sample_has_nothing_to_compare_with(mode: advantages.Mode) -> None:
    assert advantages.of(judged({"shape": table([0.7])}), mode, 5.0).tolist() == [[0.0]]
    assert advantages.of(judged({"shape": table([0.7], [0.1])}), mode, 5.0).tolist() == [[0.0], [0.0]]


def test_pitfall_17_global_std_is_the_steps_while_the_mean_is_the_prompts() -> None:
    found = advantages.of(judged({"shape": table([0.0, 2.0], [10.0, 14.0])}), "global_std", 5.0)
    close(found, table([-1, 1], [-2, 2]) / SPREAD**0.5)
    close(found.sum(1), torch.zeros(2).double())
    assert float(found.std()) < 0.5  # not 1: half of the spread lies between the prompts


def test_per_reward_sums_the_z_scores_with_the_weights() -> None:
    parts = {"shape": table([1.0, 2.0, 3.0]), "colour": table([0.0, 0.0, 30.0])}
    found = advantages.of(judged(parts, {"shape": 2.0, "colour": 0.5}), "per_reward", 5.0)
    close(found, table([-2 - 0.5 * 3**-0.5, -0.5 * 3**-0.5, 2 + 3**-0.5]))


def test_gdpo_standardises_that_sum_over_all_samples() -> None:
    parts = {"shape": table([1.0, 2.0, 3.0], [5.0, 5.0, 5.0]), "colour": table([2.0, 4.0, 6.0], [9.0, 8.0, 7.0])}
    # z-scores -1 0 1 and 0 0 0, and -1 0 1 and 1 0 -1: sums -2 0 2 and 1 0 -1, of variance (4 + 4 + 1 + 1) / 5 = 2
    close(advantages.of(judged(parts), "gdpo", 5.0), table([-2, 0, 2], [1, 0, -1]) / 2**0.5)


def test_T45_with_one_reward_aggregating_rewards_or_advantages_is_the_same() -> None:
    one = judged({"shape": random_parts()["shape"]}, {"shape": 1.0})
    group = advantages.of(one, "group", 5.0)
    close(advantages.of(one, "per_reward", 5.0), group)
    overall = advantages.of(one, "gdpo", 5.0)  # the same up to the one factor that makes the step's variance 1
    close(overall, group / group.std())


@pytest.mark.parametrize("mode", ["per_reward", "gdpo"])
def test_T45_advantage_aggregation_ignores_the_scale_of_a_reward(mode: advantages.Mode) -> None:
    parts = random_parts()
    scaled = parts | {"colour": 1000 * parts["colour"] - 3}
    close(advantages.of(judged(scaled), mode, 50.0), advantages.of(judged(parts), mode, 50.0))
    apart = advantages.of(judged(scaled), "group", 50.0) - advantages.of(judged(parts), "group", 50.0)
    assert float(apart.abs().max()) > 0.1


@pytest.mark.parametrize("mode", MODES)
def test_rewards_may_be_shifted_and_scaled_and_samples_reordered(mode: advantages.Mode) -> None:
    parts = random_parts()
    found = advantages.of(judged(parts), mode, 50.0)
    moved = {name: 4 * part + 1 for name, part in parts.items()}
    close(advantages.of(judged(moved), mode, 50.0), found)
    flipped = {name: -part for name, part in parts.items()}
    close(advantages.of(judged(flipped), mode, 50.0), -found)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    reordered = {name: part[:, order] for name, part in parts.items()}
    close(advantages.of(judged(reordered), mode, 50.0), found[:, order])


@pytest.mark.parametrize("mode", MODES)
def test_advantages_of_a_group_sum_to_zero(mode: advantages.Mode) -> None:
    found = advantages.of(judged(random_parts()), mode, 50.0)
    close(found.sum(1), torch.zeros(3).double())


def test_pitfall_18_clipping_bounds_the_outlier_and_breaks_the_zero_sum() -> None:
    outlier = judged({"shape": table([1.0] + [0.0] * 99)})  # std 0.1, so its advantage is 0.99 / 0.1
    unclipped = advantages.of(outlier, "group", 50.0)
    assert float(unclipped.max()) == pytest.approx(9.9, abs=1e-5)
    clipped = advantages.of(outlier, "group", 5.0)
    assert float(clipped.max()) == 5.0
    assert float(clipped.sum()) == pytest.approx(-4.9, abs=1e-5)


def test_single_precision_rewards_are_standardised_in_double() -> None:
    rollout = judged({"shape": table([1.0, 2.0, 3.0])})
    single = replace(rollout, rewards=torch.tensor([[1000.0, 1000.001, 1000.002]]))
    found = advantages.of(single, "group", 5.0)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, table([-1, 0, 1]), rtol=0, atol=0.1)


NAN = float("nan")


@pytest.mark.parametrize("mode", MODES)
def test_pitfall_25_a_sample_that_was_not_judged_gets_0_and_leaves_the_others_as_if_it_were_not_there(
    mode: advantages.Mode,
) -> None:
    parts = random_parts()
    whole = advantages.of(judged(parts), mode, 50.0)
    lacking = {name: torch.cat([part, part[:, :1]], dim=1) for name, part in parts.items()}
    lacking["colour"][:, -1] = NAN  # one reward alone failed; the other one's score must not be used either
    found = advantages.of(judged(lacking), mode, 50.0)
    close(found[:, :-1], whole)
    assert torch.equal(found[:, -1], torch.zeros(3).double())


@pytest.mark.parametrize("mode", MODES)
def test_a_group_with_fewer_than_two_judged_samples_gets_zeros(mode: advantages.Mode) -> None:
    found = advantages.of(judged({"shape": table([0.0, 1.0, 4.0], [NAN, 7.0, NAN], [NAN] * 3)}), mode, 5.0)
    close(found[1:], torch.zeros(2, 3).double())
    assert float(found[0].abs().min()) > 0


def test_moments_by_hand() -> None:
    mean, std = advantages.moments(table([1.0, NAN, 3.0], [NAN, 2.0, NAN]))
    close(mean, table([2.0], [2.0]))
    assert float(std[0]) == pytest.approx(2**0.5)  # (1 + 1) / (2 - 1)
    assert std[1].isnan().all()
    close(advantages.moments(table([1.0, NAN, 3.0]), unbiased=False)[1], table([1.0]))
