from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from backend import flow, matching
from backend.types import Plan, Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef", "gh")
GROUP = 4


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def policy() -> Perceptron:
    return Perceptron()


@pytest.fixture
def rollout(policy: Perceptron) -> Rollout:
    plan = Plan(flow.grid(5), (torch.arange(GROUP),) * 5, torch.zeros(5), shared_noise=False, keep="last")
    return sampled(policy, plan, PROMPTS)


def test_T35_each_stratified_level_lies_in_its_own_chunk() -> None:
    grid = flow.grid(12)[:-1]
    drawn = matching.levels(grid, (500, 4), True, generator())
    for j in range(4):
        assert set(drawn[:, j].tolist()) == set(grid[3 * j : 3 * j + 3].tolist())
    assert any(len(row.unique()) < 4 for row in matching.levels(grid, (500, 4), False, generator()))


def test_T35_as_many_pairs_as_levels_use_every_level_once() -> None:
    grid = flow.grid(7)[:-1]
    assert torch.equal(matching.levels(grid, (3, 7), True, generator()), grid.expand(3, 7))


@pytest.mark.parametrize(("num_levels", "num_pairs"), [(12, 4), (10, 4), (6, 4), (5, 8)])
def test_T35_stratified_levels_are_uniform_over_the_grid(num_levels: int, num_pairs: int) -> None:
    """Also where the chunks cut through levels. 40,000 draws: a share has a standard deviation below 0.0025."""
    grid = flow.grid(num_levels)[:-1]
    drawn = matching.levels(grid, (40_000 // num_pairs, num_pairs), True, generator())
    shares = torch.stack([(drawn == level).double().mean() for level in grid])
    torch.testing.assert_close(shares, torch.full_like(shares, 1 / num_levels), rtol=0, atol=0.01)


def test_T35_stratification_lowers_the_variance_of_a_monotone_error() -> None:
    grid = flow.grid(12)[:-1]
    means = [(matching.levels(grid, (4000, 4), kind, generator()) ** 2).mean(1) for kind in (True, False)]
    assert means[0].mean().item() == pytest.approx((grid**2).mean().item(), abs=0.005)
    # the variance within a chunk is what is left: about 1/16 of the whole, here asserted with room
    assert means[0].var() < means[1].var() / 8


def test_between_reads_the_grid_linearly_from_data_to_noise() -> None:
    grid = flow.grid(4, 3.0)
    place = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    assert torch.equal(matching.between(grid, place), grid.flip(0))
    middle = matching.between(grid, torch.tensor([0.125]))
    assert middle.item() == pytest.approx(float(grid[3]) / 2)


def test_T36_a_group_shares_its_pairs_and_prompts_do_not(rollout: Rollout) -> None:
    shared = matching.pairs(rollout, flow.grid(2)[:2].expand(3, 1, -1), True, generator())
    assert shared.eps.shape == (3, GROUP, 2, 2, 2)
    assert torch.equal(shared.eps[:, :1].expand_as(shared.eps), shared.eps)
    assert not torch.equal(shared.eps[0], shared.eps[1])
    own = matching.pairs(rollout, flow.grid(2)[:2].expand(3, 1, -1), False, generator())
    assert not torch.equal(own.eps[:, 0], own.eps[:, 1])
    assert own.sigma.shape == (3, GROUP, 2)


def test_items_name_prompt_sample_and_level(rollout: Rollout) -> None:
    x0, sigma = rollout.states[-1], torch.rand(3, GROUP, 5, generator=generator()).double()
    drawn = matching.pairs(rollout, sigma, False, generator(1))
    item = (2 * GROUP + 3) * 5 + 4
    at = matching.noised(rollout, drawn, torch.tensor([item, 0]))
    s, eps = sigma[2, 3, 4], drawn.eps[2, 3, 4]
    torch.testing.assert_close(at.x[0], (1 - s) * x0[2, 3] + s * eps)
    torch.testing.assert_close(at.target[0], eps - x0[2, 3])
    assert at.prompt.tolist() == [2, 0]
    assert at.x.dtype == torch.float64


def test_data_and_noise_errors_are_the_velocity_error_rescaled(policy: Perceptron, rollout: Rollout) -> None:
    """x0hat - x0 and epshat - eps, written out from their definitions."""
    drawn = matching.pairs(rollout, flow.grid(3)[:3].expand(3, 1, -1), True, generator())
    at = matching.noised(rollout, drawn, torch.arange(36))
    v = matching.velocity(policy, rollout, at)
    sigma = at.sigma.view(-1, 1, 1)
    data, eps = at.x - sigma * at.target, at.x + (1 - sigma) * at.target
    for prediction, expected in (
        ("v", v - at.target),
        ("x0", flow.predict_x0(at.x, v, at.sigma) - data),
        ("eps", at.x + (1 - sigma) * v - eps),
    ):
        found = matching.residual(v, at.target, at.sigma, prediction)  # type: ignore[arg-type]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


def test_T37_the_adaptive_error_is_of_first_degree_and_its_denominator_is_constant() -> None:
    difference = torch.randn(3, 2, 4, generator=generator(), dtype=torch.float64, requires_grad=True)
    error = matching.adaptive(difference)
    torch.testing.assert_close(matching.adaptive(3 * difference), 3 * error)
    (gradient,) = torch.autograd.grad(error.sum(), difference)
    size = difference.abs().flatten(1).mean(1).view(-1, 1, 1)
    torch.testing.assert_close(gradient, 2 * difference / (8 * size))
    assert matching.adaptive(torch.zeros(1, 4)).item() == 0


def test_only_current_weights_carry_gradient_and_guidance_is_off(policy: Perceptron, rollout: Rollout) -> None:
    asked: list[float | None] = []
    plain = policy.velocity

    def watched(*arguments: object, **options: object) -> Tensor:
        asked.append(arguments[4] if len(arguments) > 4 else options["guidance"])  # type: ignore[arg-type]
        return plain(*arguments, **options)  # type: ignore[arg-type]

    policy.velocity = watched  # type: ignore[method-assign]
    drawn = matching.pairs(rollout, flow.grid(1)[:1].expand(3, 1, -1), True, generator())
    at = matching.noised(rollout, drawn, torch.arange(4))
    assert matching.velocity(policy, rollout, at).requires_grad
    for weights in ("reference", "old"):
        assert not matching.velocity(policy, rollout, at, weights).requires_grad  # type: ignore[arg-type]
    assert asked == [1, 1, 1]


def test_a_micro_batch_that_holds_no_unit_is_refused() -> None:
    assert matching.units_per_batch(50, 24) == 2
    with pytest.raises(ValueError, match="micro_batch: 16 is too small, because this method needs 24"):
        matching.units_per_batch(16, 24)


def test_updates_share_all_units_and_none_is_empty() -> None:
    parts = matching.deal(10, 3, generator())
    assert sorted(torch.cat(parts).tolist()) == list(range(10))
    assert [len(part) for part in parts] == [4, 3, 3]
    with pytest.raises(ValueError, match="updates_per_rollout: 4 updates cannot share the 3"):
        matching.deal(3, 4, generator())


def test_batches_of_an_update_add_up_to_the_mean_over_its_units() -> None:
    values = torch.arange(7).double()
    parts = matching.accumulate(torch.arange(7), 3, lambda units: (values[units], {"train/x": values[units] ** 2}))
    losses = list(parts)
    assert sum(float(loss.value) for loss in losses) == pytest.approx(3.0)  # (0 + ... + 6) / 7
    assert [loss.update for loss in losses] == [False, False, True]
    assert losses[-1].metrics == {"train/loss": pytest.approx(3.0), "train/x": pytest.approx(13.0)}  # 91 / 7
    assert all(not loss.metrics for loss, _ in pairwise(losses))
