from __future__ import annotations

import pytest
import torch
from torch import Tensor

from backend import flow, matching
from backend.methods import awm
from backend.methods.awm import AWM
from backend.types import Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef")
GROUP = 4


def rolled_out(method: AWM, policy: Perceptron, num_steps: int = 14) -> Rollout:
    return sampled(policy, method.plan(0, flow.grid(num_steps)), PROMPTS)


def gradient(method: AWM, policy: Perceptron, rollout: Rollout) -> Tensor:
    policy.zero_grad()
    for loss in method.losses(policy, rollout, method.credit(rollout, 0), 0):
        loss.value.backward()
    return policy.gradient()


def at_pairs(rollout: Rollout) -> matching.Noised:
    """What `losses` draws: levels 1 to 11 of 14, in 6 chunks shared by a group, and noise of each sample."""
    generator = torch.Generator().manual_seed(0)
    sigma = matching.levels(rollout.plan.sigmas[1:12], (2, 1, 6), True, generator)
    return matching.noised(rollout, matching.pairs(rollout, sigma, False, generator), torch.arange(2 * GROUP * 6))


@pytest.mark.parametrize("weighting", ["uniform", "t", "t2", "huber", "ghuber"])
@pytest.mark.parametrize("ratio", ["exp_first", "sum_first"])
def test_T33_the_gradient_is_advantage_weighted_matching(weighting: awm.Weighting, ratio: str) -> None:
    policy, method = Perceptron(), AWM(group_size=GROUP, weighting=weighting, ratio=ratio, kl_weight=0.0)
    rollout = rolled_out(method, policy)
    found = gradient(method, policy, rollout)
    at = at_pairs(rollout)
    error = ((matching.velocity(policy, rollout, at) - at.target) ** 2).flatten(1).mean(1)
    weighted = {
        "uniform": error,
        "t": at.sigma * error,
        "t2": at.sigma**2 * error,
        "huber": at.sigma * (error + 1e-10).sqrt(),
        "ghuber": at.sigma * 4 * (error + 1e-10) ** 0.25,
    }[weighting]
    policy.zero_grad()
    (method.credit(rollout, 0).advantages[-1][..., None] * weighted.view(2, GROUP, 6)).mean().backward()
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found, policy.gradient(), rtol=0, atol=1e-12)


def test_weighted_errors_are_zero_where_the_error_is() -> None:
    none, t = torch.zeros(3).double(), torch.tensor([0.1, 0.5, 1.0]).double()
    for weighting in ("uniform", "t", "t2", "huber", "ghuber"):
        assert awm.weighted(none, t, weighting).abs().max() < 1e-15  # type: ignore[arg-type]
    torch.testing.assert_close(awm.weighted(none + 16, t, "ghuber"), t * (2 - 1e-10**0.25) / 0.25)


def test_pure_noise_and_the_last_tenth_are_not_trained() -> None:
    grid = flow.grid(14)
    assert torch.equal(AWM()._trained(grid), grid[1:12])  # int(14 * 0.9) = 12
    with pytest.raises(ValueError, match=r"timestep_fraction: 0\.9 of 2 levels ends before first_level 1"):
        AWM().plan(0, flow.grid(2))


def test_advantages_are_clipped_to_one() -> None:
    policy, method = Perceptron(), AWM(group_size=GROUP)
    rollout = rolled_out(method, policy)
    advantages = method.credit(rollout, 0).advantages[-1]
    whole = AWM(group_size=GROUP, advantage_clip=9.0).credit(rollout, 0).advantages[-1]
    assert whole.abs().max() > 1
    assert torch.equal(advantages, whole.clamp(-1, 1))


@pytest.mark.parametrize(
    ("options", "evaluated"), [({}, 24), ({"kl_weight": 0.0}, 0), ({"updates_per_rollout": 2}, 36)]
)
def test_the_cost_is_the_forwards_that_are_run(options: dict[str, float], evaluated: int) -> None:
    """4 samples at 6 levels; the base once each, and the weights that sampled for the second half."""
    policy, method = Perceptron(), AWM(group_size=GROUP, **options)
    rollout = rolled_out(method, policy)
    policy.batches.clear()
    gradient(method, policy, rollout)
    cost = method.training_cost(rollout.plan)
    assert (cost.trained, cost.evaluated) == (24, evaluated)
    assert sum(policy.batches) == 2 * (24 + evaluated)
