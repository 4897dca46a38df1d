"""The value network: what it starts from, that it can be fitted, what it sees, and that it survives a checkpoint."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor

from backend.critic import Critic, hashed_words

CPU = torch.device("cpu")


def states(seed: int = 0, number: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    prompts = [("a red circle", "two stars")[i % 2] for i in range(number)]
    sigma = torch.rand(number, generator=generator, dtype=torch.float64)
    return torch.randn(number, 2, 2, generator=generator), sigma, hashed_words(prompts)


def fitted(rewards: Tensor, steps: int = 150) -> tuple[Critic, float]:
    critic = Critic((2, 2), CPU, learning_rate=3e-3)
    error = 0.0
    for _ in range(steps):
        error = critic.fit(*states(), rewards)
    return critic, error


def test_before_it_is_fitted_every_state_is_worth_nothing() -> None:
    assert torch.equal(Critic((2, 2), CPU)(*states()), torch.zeros(64))


@pytest.mark.parametrize("seen", ["latent", "level", "prompt"])
def test_it_learns_a_reward_of_each_thing_that_it_sees(seen: str) -> None:
    x, sigma, words = states()
    prompt = torch.arange(64) % 2
    rewards = {"latent": x[:, 0, 0], "level": 2 * sigma, "prompt": prompt.double()}[seen].double()
    critic, error = fitted(rewards)
    assert error < 0.05 * float(rewards.var())
    torch.testing.assert_close(critic(x, sigma, words).double(), rewards, rtol=0, atol=0.6)


def test_the_error_is_the_mean_square_before_the_step() -> None:
    rewards = torch.full((64,), 3.0)
    assert Critic((2, 2), CPU).fit(*states(), rewards) == pytest.approx(9.0)


def test_words_are_told_apart_whatever_their_order_and_case() -> None:
    rows = hashed_words(["a red circle", "Circle red A", "a blue circle", ""])
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    torch.testing.assert_close(rows.square().sum(1), torch.tensor([1.0, 1.0, 1.0, 0.0]))


def test_it_survives_a_checkpoint_with_its_optimizer() -> None:
    rewards = states()[0][:, 0, 0]
    critic, _ = fitted(rewards, 3)
    file = io.BytesIO()
    torch.save(critic.state_dict(), file)
    file.seek(0)
    copy = Critic((2, 2), CPU, learning_rate=3e-3)
    copy.load_state_dict(torch.load(file, weights_only=True))
    assert copy.fit(*states(), rewards) == critic.fit(*states(), rewards)
    assert torch.equal(copy(*states()), critic(*states()))


def test_two_start_alike_and_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    first, second = Critic((2, 2), CPU), Critic((2, 2), CPU)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.network.parameters(), second.network.parameters(), strict=True))
