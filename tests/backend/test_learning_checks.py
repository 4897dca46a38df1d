"""Every method on a problem with a known answer: Gaussian data, the exact velocity to start from, a linear reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from backend import flow, rollout
from backend.config import AnyMethod
from backend.methods.awm import AWM
from backend.methods.branchgrpo import BranchGRPO
from backend.methods.dancegrpo import DanceGRPO
from backend.methods.ddpo import DDPO
from backend.methods.dgpo import DGPO
from backend.methods.dpo import DPO
from backend.methods.dpok import DPOK
from backend.methods.flowgrpo import FlowGRPO
from backend.methods.grpoguard import GRPOGuard
from backend.methods.mixgrpo import MixGRPO
from backend.methods.nft import NFT
from backend.methods.refl import ReFL
from backend.methods.tempflow import TempFlow
from backend.methods.vgrpo import VGRPO
from backend.types import Rollout, Weights
from tests.backend.toy import Lengths, encode, gaussian_velocity, generators

SIGMAS = flow.grid(5)
PROMPTS = ("a", "bcdef")
UPDATES, RATE = 50, 0.0025
SAMPLES = 400
METHODS = (
    BranchGRPO(split_steps=(0, 1, 2), sde="flow", eta=0.7),
    DanceGRPO(sde="flow", eta=0.7, timestep_fraction=1.0),
    FlowGRPO(group_size=12),
    GRPOGuard(group_size=12),
    MixGRPO(window=3),
    TempFlow(),
    DDPO(group_size=12),
    # two latent dimensions let a ratio move farther than thousands do, and beyond the clamp DPOK has no gradient
    DPOK(group_size=12, clip_range=0.2, value_learning_rate=1e-2),
    # errors of order 1 would saturate the sigmoid of the papers' beta
    DGPO(group_size=12, beta=1.0, clip_range=None, t_min=0.2),
    DPO(group_size=12, beta=1.0),
    VGRPO(group_size=12),
    NFT(group_size=12),
    AWM(group_size=12, train_timesteps=3),
    ReFL(group_size=12),
)
COMPARING = [one for one in METHODS if not isinstance(one, ReFL)]  # ReFL's gradient is the reward's own
PULLED = [one for one in METHODS if "kl_weight" in type(one).model_fields and not isinstance(one, VGRPO)]
REWARD = torch.tensor([1.0, 0.5], dtype=torch.float64)


class Steered(nn.Module):
    """The exact velocity of data N(m, diag(c^2)), plus a linear map of (x, sigma, prompt, 1) that is trained from 0."""

    device = torch.device("cpu")
    latent_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2, dtype=torch.float64)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
        self.copies = {name: [p.detach().clone() for p in self.parameters()] for name in ("reference", "old")}

    def encode(self, prompts: Sequence[str]) -> Lengths:
        return encode(prompts)

    def velocity(
        self, x: Tensor, sigma: Tensor, cond: Lengths, weights: Weights = "current", guidance: float | None = None
    ) -> Tensor:
        mean, std = torch.tensor([[1.0, -1.0], [0.5, 1.2]]).to(x)
        exact = gaussian_velocity(x, sigma[:, None], mean, std)
        features = torch.cat([x, sigma[:, None].to(x), cond.rows.to(x)[:, None]], dim=1)
        weight, bias = self.parameters() if weights == "current" else self.copies[weights]
        return exact + nn.functional.linear(features, weight, bias)

    def decode(self, x0: Tensor) -> Tensor:
        return x0.reshape(len(x0), 1, 1, 1, 2)

    def track_old(self, decay: float) -> None:
        for old, value in zip(self.copies["old"], self.parameters(), strict=True):
            old.lerp_(value.detach(), 1 - decay)


def judge(frames: Tensor, prompts: Sequence[str]) -> Tensor:
    return frames.flatten(1) @ REWARD


def train(method: Any, policy: Steered, shuffled: bool = False, updates: int = UPDATES) -> list[float]:
    """Train for about `updates` optimizer steps of Adam; the loss of each micro-batch."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=RATE)
    memory, trace, step, done = method.remember(policy), [], 0, 0
    while done < updates:
        rolled = judged(method, policy, step, shuffled, memory)
        for loss in method.losses(policy, rolled, method.credit(rolled, step), step):
            torch.autograd.backward(loss.value)
            trace.append(float(loss.value.detach()))
            if loss.update:
                optimizer.step()
                optimizer.zero_grad()
                done += 1
        step += 1
    return trace


def judged(method: Any, policy: Steered, step: int, shuffled: bool, memory: Any) -> Rollout:
    grown = rollout.sample(
        policy, PROMPTS, method.plan(step, SIGMAS), generators(len(PROMPTS), step), dtype=torch.float64
    )
    rewards = grown.states[-1] @ REWARD
    if shuffled:
        order = torch.randperm(rewards.numel(), generator=torch.Generator().manual_seed(10_000 + step))
        rewards = rewards.flatten()[order].view_as(rewards)
    return replace(
        grown, rewards=rewards, parts={"linear": rewards}, part_weights={"linear": 1.0}, judge=judge, memory=memory
    )


def gain(policy: Steered) -> tuple[float, float]:
    """How much the mean reward of ODE samples has risen above the base's, from the same noise.

    And the standard error that the difference would have from two noises, which is larger.
    """

    def rewards(one: Steered) -> Tensor:
        noise = torch.randn(SAMPLES, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        cond = encode([PROMPTS[i % 2] for i in range(SAMPLES)])
        with torch.no_grad():
            for sigma, after in pairwise(SIGMAS):
                noise = noise - (sigma - after) * one.velocity(noise, sigma.expand(SAMPLES), cond)
        return noise @ REWARD

    tuned, base = rewards(policy), rewards(Steered())
    error = ((tuned.var() + base.var()) / SAMPLES) ** 0.5
    return float(tuned.mean() - base.mean()), float(error)


def distance(policy: Steered) -> float:
    """Mean |v - v_ref|^2 over noisy base samples at all levels."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(500, 2, generator=generator, dtype=torch.float64)
    sigma = torch.rand(500, generator=generator, dtype=torch.float64)
    cond = encode([PROMPTS[i % 2] for i in range(500)])
    with torch.no_grad():
        gap = policy.velocity(x, sigma, cond) - policy.velocity(x, sigma, cond, weights="reference")
    return float(gap.square().mean())


def named(methods: Sequence[Any]) -> Any:
    return pytest.mark.parametrize("method", methods, ids=lambda one: one.name)


def test_every_method_is_checked_here() -> None:
    assert set(get_args(get_args(AnyMethod)[0])) <= {type(one) for one in METHODS}


@named(METHODS)
def test_T46_a_linear_reward_rises(method: Any) -> None:
    policy = Steered()
    train(method, policy)
    rise, error = gain(policy)
    assert rise > 3 * error


@named(COMPARING)
def test_T46_shuffled_rewards_teach_nothing(method: Any) -> None:
    policy = Steered()
    train(method, policy, shuffled=True)
    rise, error = gain(policy)
    assert abs(rise) < 3 * error


@named(PULLED)
def test_T47_with_a_kl_the_policy_stays_closer_to_the_base(method: Any) -> None:
    free, tied = Steered(), Steered()
    train(method.model_copy(update={"kl_weight": 0.0}), free)
    train(method.model_copy(update={"kl_weight": 10.0}), tied)
    assert distance(tied) < 0.8 * distance(free)


@named(METHODS)
def test_T48_the_same_run_gives_the_same_losses_bit_for_bit(method: Any) -> None:
    traces = [train(method, Steered(), updates=5) for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(traces[0]) >= 5
