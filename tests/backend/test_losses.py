"""The clipped and clamped ratios, the KL of a step, and GRPO-Guard's log-ratio: T11 to T14."""

import math

import pytest
import torch

from backend import flow
from backend.losses import clamped_ratio, clipped_ratio, gaussian_kl, guarded_log_ratio


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_T11_at_ratio_one_the_gradient_is_minus_the_advantage() -> None:
    log_ratio = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    advantages = tensor(2.0, -1.0, 0.0)
    loss = clipped_ratio(log_ratio, advantages, clip=0.1)
    loss.sum().backward()
    assert torch.equal(loss, -advantages)
    assert torch.equal(log_ratio.grad, -advantages)


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "has_gradient"),
    [
        (1.0, 1.5, -1.1, False),  # already better than the region allows: clipped
        (1.0, 0.5, -0.5, True),  # a good action became unlikely: pulled back
        (-1.0, 0.5, 0.9, False),  # a bad action is unlikely enough: clipped
        (-1.0, 1.5, 1.5, True),  # a bad action became likely: pulled back
        (1.0, 1.05, -1.05, True),  # inside
    ],
)
def test_T11_only_leaving_the_region_in_the_wanted_direction_is_clipped(
    advantage: float, ratio: float, loss: float, has_gradient: bool
) -> None:
    log_ratio = tensor(ratio).log().requires_grad_()
    value = clipped_ratio(log_ratio, tensor(advantage), clip=0.1)
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert log_ratio.grad.item() == pytest.approx(-advantage * ratio if has_gradient else 0.0)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize(
    ("ratio", "clamped", "has_gradient"), [(1.5, 1.1, False), (0.5, 0.9, False), (1.05, 1.05, True)]
)
def test_the_clamp_has_no_gradient_outside_the_region_on_either_side(
    advantage: float, ratio: float, clamped: float, has_gradient: bool
) -> None:
    log_ratio = tensor(ratio).log().requires_grad_()
    value = clamped_ratio(log_ratio, tensor(advantage), clip=0.1)
    value.sum().backward()
    assert value.item() == pytest.approx(-clamped * advantage)
    assert log_ratio.grad.item() == pytest.approx(-advantage * ratio if has_gradient else 0.0)


def test_inside_the_region_clamp_and_clip_agree() -> None:
    log_ratios, advantages = tensor(-0.05, 0.0, 0.05), tensor(2.0, -1.0, -3.0)
    assert torch.equal(clamped_ratio(log_ratios, advantages, 0.1), clipped_ratio(log_ratios, advantages, 0.1))


def gaussians(num: int, dims: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Noise, samples of N(old, std^2 I), means near the old ones, and stds that differ."""
    generator = torch.Generator().manual_seed(5)
    noise, old, shift = (torch.randn(num, dims, generator=generator, dtype=torch.float64) for _ in range(3))
    std = torch.linspace(0.1, 2.0, num, dtype=torch.float64)
    return noise, old, old + 0.01 * shift, std


def test_T14_the_kl_is_that_of_two_gaussians() -> None:
    _, old, mean, std = gaussians(5, 3)
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, std[:, None]), normal(old, std[:, None])).mean(1)
    torch.testing.assert_close(gaussian_kl(mean, old, std), expected, rtol=1e-12, atol=0)
    assert gaussian_kl(tensor(1.0, 3.0)[None], tensor(0.0, 0.0)[None], tensor(2.0)).item() == 10 / 2 / 8


def test_T12_the_guarded_log_ratio_is_the_papers() -> None:
    """(log p - log p_old + KL) s = (1/d) xi . (mu - mu_old), and log p - log p_old = (that) / s - KL."""
    noise, old, mean, std = gaussians(5, 3)
    x = old + std[:, None] * noise
    plain = flow.log_prob(x, mean, std) - flow.log_prob(x, old, std)
    guarded = guarded_log_ratio(x, mean, old, std)
    kl = gaussian_kl(mean, old, std)
    torch.testing.assert_close(guarded, (plain + kl) * std, rtol=0, atol=1e-14)
    torch.testing.assert_close(guarded, (noise * (mean - old)).mean(1), rtol=0, atol=1e-14)
    torch.testing.assert_close(plain, guarded / std - kl, rtol=0, atol=1e-12)


def test_T12_the_guarded_log_ratio_has_mean_zero_and_does_not_depend_on_the_std() -> None:
    num = 200_000
    noise = torch.randn(num, 2, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    old, mean = torch.zeros(num, 2).double(), torch.full((num, 2), 0.3).double()
    narrow, wide = (torch.full((num,), std, dtype=torch.float64) for std in (0.1, 2.0))
    found = guarded_log_ratio(old + 0.1 * noise, mean, old, narrow)
    torch.testing.assert_close(found, guarded_log_ratio(old + 2.0 * noise, mean, old, wide), rtol=0, atol=1e-12)
    error = float(found.std()) / num**0.5
    assert abs(float(found.mean())) < 4 * error
    plain = flow.log_prob(old + 2.0 * noise, mean, wide) - flow.log_prob(old + 2.0 * noise, old, wide)
    assert float(plain.mean()) == pytest.approx(-(0.3**2) / 8, abs=4 * float(plain.std()) / num**0.5)


def test_T13_the_summed_ratio_has_mean_one_and_the_averaged_one_less() -> None:
    num, dims = 200_000, 4
    noise = torch.randn(num, dims, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    std, old, mean = torch.ones(num).double(), torch.zeros(num, dims).double(), torch.full((num, dims), 0.2).double()
    log_ratio = flow.log_prob(noise, mean, std) - flow.log_prob(noise, old, std)
    whole, averaged = (dims * log_ratio).exp(), log_ratio.exp()
    assert float(whole.mean()) == pytest.approx(1.0, abs=4 * float(whole.std()) / num**0.5)
    # log-normal: mean -0.2^2 / 2 = -0.02 and variance 0.2^2 / 4 = 0.01, so the ratio's mean is exp(-0.02 + 0.005)
    assert float(averaged.mean()) == pytest.approx(math.exp(-0.015), abs=4 * float(averaged.std()) / num**0.5)
