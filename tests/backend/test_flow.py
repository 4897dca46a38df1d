"""Samplers and log-probabilities against closed forms, with the exact velocity of Gaussian data."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from backend import flow
from tests.backend.toy import gaussian_velocity

MEAN = torch.tensor([1.0, -0.5, 0.3], dtype=torch.float64)
STD = torch.tensor([0.5, 1.2, 0.8], dtype=torch.float64)


def velocity(x: Tensor, sigma: Tensor | float) -> Tensor:
    return gaussian_velocity(x, sigma, MEAN, STD)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def euler(x: Tensor, sigmas: Tensor) -> Tensor:
    for sigma, sigma_next in pairwise(sigmas):
        x = x - (sigma - sigma_next) * velocity(x, sigma)
    return x


def test_noise_and_predict_x0_are_inverse_along_the_true_velocity() -> None:
    x0, eps = normal(4, 3, seed=1), normal(4, 3, seed=2)
    sigma = torch.tensor([0.1, 0.4, 0.7, 1.0], dtype=torch.float64)
    x = flow.noise(x0, eps, sigma)
    torch.testing.assert_close(x[1], 0.6 * x0[1] + 0.4 * eps[1])
    torch.testing.assert_close(flow.predict_x0(x, eps - x0, sigma), x0)


def test_T1_dance_step_equals_its_score_form() -> None:
    x, v, sigma, sigma_next, eta = normal(5, 3, seed=1), normal(5, 3, seed=2), 0.7, 0.6, 0.3
    mean, std = flow.sde_mean_std(x, v, sigma, sigma_next, eta)
    x0hat, dsigma = x - sigma * v, sigma_next - sigma
    released = x + dsigma * v + 0.5 * eta**2 * (x - (1 - sigma) * x0hat) / sigma**2 * dsigma
    torch.testing.assert_close(mean, released, rtol=0, atol=1e-12)
    assert float(std) == pytest.approx(0.3 * math.sqrt(0.1), abs=1e-15)


def test_T2_flow_sde_step_equals_the_release_of_flow_grpo() -> None:
    sigmas = flow.grid(10, 3.0)
    rates = flow.flow_sde_rates(sigmas, 0.7)
    x, v = normal(5, 3, seed=1), normal(5, 3, seed=2)
    for i in range(10):
        sigma, dt = sigmas[i], sigmas[i + 1] - sigmas[i]
        stand_in = sigmas[1] if sigma == 1 else sigma
        std = 0.7 * torch.sqrt(stand_in / (1 - stand_in))
        released = x * (1 + std**2 / (2 * sigma) * dt) + v * (1 + std**2 * (1 - sigma) / (2 * sigma)) * dt
        mean, noise = flow.sde_mean_std(x, v, sigma, sigmas[i + 1], rates[i])
        torch.testing.assert_close(mean, released, rtol=0, atol=1e-12)
        torch.testing.assert_close(noise, std * torch.sqrt(-dt), rtol=1e-12, atol=0)


def test_dance_rates_are_constant() -> None:
    assert flow.dance_rates(flow.grid(4), 0.3).tolist() == [0.3] * 4


@pytest.mark.parametrize("step", [flow.sde_mean_std, flow.cps_mean_std, flow.ddim_mean_std])
def test_T3_without_noise_every_step_is_the_euler_step(step) -> None:  # type: ignore[no-untyped-def]
    x, v = normal(5, 3, seed=1), normal(5, 3, seed=2)
    for sigma, sigma_next in ((1.0, 0.9), (0.6, 0.45), (0.1, 0.0)):
        mean, std = step(x, v, sigma, sigma_next, 0.0)
        torch.testing.assert_close(mean, x - (sigma - sigma_next) * v, rtol=0, atol=1e-14)
        assert std == 0


def test_T4_dpm_solver_is_second_order_and_ends_with_euler() -> None:
    z = normal(200, 3, seed=3)
    exact = MEAN + STD * z  # at sigma = 1 the latent is z itself
    for num_steps in (10, 20, 40, 80, 160):
        sigmas = flow.grid(num_steps)
        error = (flow.dpm_solver_2m(velocity, z, sigmas) - exact).abs().max()
        assert (euler(z, sigmas) - exact).abs().max() > 10 * error, num_steps
    for num_steps in (1, 2):  # all steps are first order
        sigmas = flow.grid(num_steps)
        torch.testing.assert_close(flow.dpm_solver_2m(velocity, z, sigmas), euler(z, sigmas), rtol=0, atol=1e-12)


def test_T4_dpm_solver_lands_on_a_constant_prediction() -> None:
    target = torch.tensor([[2.0, -1.0, 0.5]], dtype=torch.float64)
    landed = flow.dpm_solver_2m(lambda x, sigma: (x - target) / sigma, normal(6, 3), flow.grid(7, 3.0))
    torch.testing.assert_close(landed, target.expand(6, 3), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["dance", "flow"])
def test_T5_sde_samples_have_the_law_of_the_data(kind: str) -> None:
    sigmas = flow.grid(200)
    rates = flow.dance_rates(sigmas, 1.0) if kind == "dance" else flow.flow_sde_rates(sigmas, 0.7)
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(60_000, 3, generator=generator, dtype=torch.float64)
    for i in range(200):
        mean, std = flow.sde_mean_std(x, velocity(x, sigmas[i]), sigmas[i], sigmas[i + 1], rates[i])
        x = mean + std * torch.randn(x.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(x.mean(0), MEAN, rtol=0, atol=0.015)
    torch.testing.assert_close(x.std(0), STD, rtol=0.012, atol=0)


def test_T5_cps_keeps_the_noise_level_of_a_point_mass_and_ddim_is_less_biased() -> None:
    point, sigmas, generator = torch.tensor([0.7], dtype=torch.float64), flow.grid(8, 3.0), torch.Generator()
    x = torch.randn(200_000, 1, generator=generator.manual_seed(5), dtype=torch.float64)
    for i in range(8):
        v = (x - point) / sigmas[i]
        mean, std = flow.cps_mean_std(x, v, sigmas[i], sigmas[i + 1], 0.8)
        x = mean + std * torch.randn(x.shape, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(x.mean(0), (1 - sigmas[i + 1]) * point, rtol=0, atol=0.01)
        torch.testing.assert_close(x.std(0), sigmas[i + 1].reshape(1), rtol=0.01, atol=1e-12)


def test_T5_ddim_converges_to_the_law_of_the_data_where_cps_stays_too_narrow() -> None:
    sigmas, ratios = flow.grid(100, 3.0), {}
    for name, step, eta in (("cps", flow.cps_mean_std, 0.8), ("ddim", flow.ddim_mean_std, 1.0)):
        generator = torch.Generator().manual_seed(6)
        x = torch.randn(20_000, 3, generator=generator, dtype=torch.float64)
        for i in range(100):
            mean, std = step(x, velocity(x, sigmas[i]), sigmas[i], sigmas[i + 1], eta)
            x = mean + std * torch.randn(x.shape, generator=generator, dtype=torch.float64)
        ratios[name] = x.std(0) / STD
    assert (ratios["ddim"] > 0.92).all()
    assert (ratios["cps"] < 0.85).all()


def test_T6_the_deterministic_last_step_is_the_predicted_data() -> None:
    x, v, sigma = normal(5, 3, seed=1), normal(5, 3, seed=2), flow.grid(10, 3.0)[-2]
    mean, std = flow.sde_mean_std(x, v, sigma, 0.0, 0.0)
    assert torch.equal(mean, flow.predict_x0(x, v, sigma))
    assert std == 0


def test_T7_shift_keeps_the_ends_and_the_order() -> None:
    assert flow.shift(torch.tensor(0.3, dtype=torch.float64), 3.0) == pytest.approx(0.5625)  # 0.9 / 1.6
    sigmas = flow.grid(20, 3.0)
    assert sigmas.dtype == torch.float64
    assert (sigmas[0], sigmas[-1]) == (1.0, 0.0)
    assert (sigmas.diff() < 0).all()
    torch.testing.assert_close(flow.grid(4), torch.tensor([1, 0.75, 0.5, 0.25, 0], dtype=torch.float64))


def test_T8_log_prob_is_the_mean_gaussian_log_density() -> None:
    x, mean = normal(6, 2, 3, seed=1), normal(6, 2, 3, seed=2)
    std = torch.linspace(0.1, 1.1, 6, dtype=torch.float64)
    expected = torch.distributions.Normal(mean, std.view(6, 1, 1)).log_prob(x)
    torch.testing.assert_close(flow.log_prob(x, mean, std), expected.mean((1, 2)), rtol=0, atol=1e-12)
    torch.testing.assert_close(6 * flow.log_prob(x, mean, std), expected.sum((1, 2)), rtol=0, atol=1e-11)


def test_T8_log_prob_of_own_samples_has_the_known_mean_and_spread() -> None:
    d, std = 8, 0.4
    logp = flow.log_prob(std * normal(100_000, d, seed=7), torch.zeros(100_000, d, dtype=torch.float64), std)
    assert float(logp.mean()) == pytest.approx(-0.5 - math.log(std) - 0.5 * math.log(2 * math.pi), abs=4e-3)
    assert float(logp.std()) == pytest.approx(math.sqrt(0.5 / d), rel=0.01)


def test_log_prob_of_half_precision_is_computed_in_float32() -> None:
    x, mean = normal(4, 64, seed=1).bfloat16(), normal(4, 64, seed=2).bfloat16()
    logp = flow.log_prob(x, mean, torch.tensor(0.3))
    assert logp.dtype == torch.float32
    torch.testing.assert_close(logp.double(), flow.log_prob(x.double(), mean.double(), 0.3), rtol=1e-6, atol=0)


def test_T9_the_last_cps_step_has_no_density() -> None:
    x, v = normal(5, 3, seed=1), normal(5, 3, seed=2)
    mean, std = flow.cps_mean_std(x, v, 0.1, 0.0, 0.8)
    assert std == 0
    with pytest.raises(ValueError, match="std: must be positive"):
        flow.log_prob(mean, mean, std)


def test_T12_log_ratio_of_two_means() -> None:
    old, moved, xi, std, d = normal(5, 8, seed=1), 0.01 * normal(5, 8, seed=2), normal(5, 8, seed=3), 0.2, 8
    x = old + std * xi
    log_ratio = flow.log_prob(x, old + moved, std) - flow.log_prob(x, old, std)
    expected = ((xi * moved).sum(1) / std - (moved**2).sum(1) / (2 * std**2)) / d
    torch.testing.assert_close(log_ratio, expected, rtol=0, atol=1e-12)


def test_T13_mean_ratio_is_one_for_sums_and_less_for_means() -> None:
    d, std, moved = 8, 0.2, 0.05
    xi = normal(200_000, d, seed=8)
    zero = torch.zeros_like(xi)
    log_ratio = flow.log_prob(std * xi, zero + moved, std) - flow.log_prob(std * xi, zero, std)
    assert float((d * log_ratio).exp().mean()) == pytest.approx(1.0, abs=0.01)
    # E exp(N(-m, s^2)) with m = (moved / std)^2 / 2 and s^2 = 2 m / d
    m = (moved / std) ** 2 / 2
    assert float(log_ratio.exp().mean()) == pytest.approx(math.exp(-m + m / d), abs=1e-3)
    assert math.exp(-m + m / d) < 0.98


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_give_the_same_bits_for_scalars_and_for_one_sigma_a_latent(dtype: torch.dtype) -> None:
    x, v, sigmas = normal(6, 2, 3, seed=1).to(dtype), normal(6, 2, 3, seed=2).to(dtype), flow.grid(6, 3.0)
    rates = flow.flow_sde_rates(sigmas, 0.7)
    mean, std = flow.sde_mean_std(x, v, sigmas[:-1], sigmas[1:], rates)
    assert mean.dtype == std.dtype == dtype
    for i in range(6):
        one, one_std = flow.sde_mean_std(x[i : i + 1], v[i : i + 1], sigmas[i], sigmas[i + 1], rates[i])
        assert torch.equal(mean[i : i + 1], one)
        assert torch.equal(std[i], one_std)
