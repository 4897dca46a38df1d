"""AWM, advantage weighted matching (arXiv 2509.25050): the pre-training loss, weighted by advantages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import advantages, matching, surrogate
from backend.advantages import Mode
from backend.methods.forward_process import ForwardProcess
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout

Weighting = Literal["uniform", "t", "t2", "huber", "ghuber"]


class AWM(ForwardProcess):
    """log pi = -w(t) ||v - (eps - x0)||^2, at levels that a group shares and noise of each sample's own."""

    name: Literal["awm"] = "awm"

    weighting: Weighting = Field(
        "ghuber", description="Weight of an error l: 1, t, t^2, t sqrt(l) (huber), or t l^p / p (ghuber, p = 0.25)"
    )
    ratio: Literal["exp_first", "sum_first"] = Field(
        "exp_first", description="A ratio for each level, or one for each sample, whose levels are averaged first"
    )
    train_timesteps: int = Field(6, ge=1, le=200, description="Noise levels of a sample, stratified (release 6)")
    first_level: int = Field(1, ge=0, description="Index of the grid's first level trained (release 1: not pure noise)")
    timestep_fraction: float = Field(
        0.9, gt=0, le=1, description="Levels are drawn from this share of the grid, from its noisy end (release 0.9)"
    )
    advantages: Mode = Field("group", description="How rewards become advantages (release: standardised in the group)")
    advantage_clip: float = Field(1.0, gt=0, description="Largest magnitude of an advantage (Flow-Factory 1)")
    clip_range: float | None = Field(
        None, gt=0, description="The ratio is clipped to 1 +- this (released configs 1, which never acts); empty = none"
    )
    kl_weight: float = Field(
        1e-3, ge=0, description="Weight of the squared distance to the base model's velocity (release 1e-3 to 3e-3)"
    )
    updates_per_rollout: int = Field(
        1, ge=1, le=256, description="Optimizer steps on each rollout; above 1 the later ones are off-policy"
    )

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains. Raises ValueError when no level lies in the trained range."""
        self._trained(sigmas)
        return super().plan(step, sigmas)

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The ratio of the weighted errors, clipped if asked for."""
        generator = torch.Generator().manual_seed(step)
        size = (len(rollout.prompts), 1, self.train_timesteps)
        sigma = matching.levels(self._trained(rollout.plan.sigmas), size, True, generator)
        return surrogate.losses(
            policy,
            rollout,
            credit.advantages[-1],
            matching.pairs(rollout, sigma, False, generator),
            surrogate.Objective(self._error, self.clip_range, self.ratio == "exp_first", kl_ref=self.kl_weight),
            micro_batch=self.micro_batch,
            updates=self.updates_per_rollout,
            generator=generator,
        )

    def training_cost(self, plan: Plan) -> Cost:
        each, updates = self.group_size * self.train_timesteps, self.updates_per_rollout
        old, reference = each * (updates - 1) // updates, each if self.kl_weight > 0 else 0
        return Cost(trained=each, evaluated=old + reference, updates=updates)

    def _error(self, v: Tensor, at: matching.Noised) -> Tensor:
        return weighted(matching.mean_square(v - at.target), at.sigma, self.weighting)

    def _trained(self, sigmas: Tensor) -> Tensor:
        num_steps = len(sigmas) - 1
        found = sigmas[self.first_level : int(num_steps * self.timestep_fraction)]
        if not len(found):
            raise ValueError(
                f"timestep_fraction: {self.timestep_fraction} of {num_steps} levels ends before first_level "
                f"{self.first_level}; raise the fraction or the number of sampling steps, or start earlier"
            )
        return found

    def _advantages(self, rollout: Rollout) -> Tensor:
        return advantages.of(rollout, self.advantages, self.advantage_clip, unbiased=False)

    def _together(self, group_size: int) -> int:
        return self.train_timesteps


def weighted(error: Tensor, t: Tensor, weighting: Weighting, power: float = 0.25) -> Tensor:
    """Errors [N] at levels t [N] -> weighted errors [N], 0 where the error is 0 (released script)."""
    if weighting == "huber":
        return (torch.sqrt(error + 1e-10) - 1e-5) * t
    if weighting == "ghuber":
        return ((error + 1e-10) ** power - 1e-10**power) * t / power
    return error * t ** {"uniform": 0, "t": 1, "t2": 2}[weighting]
