"""MixGRPO (Li et al. 2025, arXiv 2507.21802) and MixGRPO-Flash: noise and training in a window of steps alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from backend import advantages, tree
from backend.methods import flat
from backend.methods.settings import Sde, Settings, TiedPolicyGradient
from backend.methods.window_schedule import Progressive, Schedule
from backend.types import Credit, Plan, Rollout


class Flash(Settings):
    """MixGRPO-Flash: fewer steps of DPM-Solver++ 2M after the window, which is not trained there."""

    compression: float = Field(
        0.4, gt=0, le=1, description="Share of the steps after the window that is left (0.4; frozen window 0.2)"
    )

    def shorten(self, plan: Plan, end: int) -> Plan:
        """The plan with ceil((T - end) compression) steps from step `end` on.

        They are evenly spaced in the number of the step, and sigma is interpolated between the grid's own values, so
        a whole-numbered reduction leaves a subset of the grid and no reduction leaves the grid.
        """
        kept = math.ceil((plan.num_steps - end) * self.compression - 1e-9)  # 5 x 0.6 is 3, not 3.0000000000000004
        position = torch.linspace(end, plan.num_steps, kept + 1, dtype=torch.float64)
        below = position.floor().long().clamp(max=plan.num_steps - 1)
        tail = torch.lerp(plan.sigmas[below], plan.sigmas[below + 1], position - below)
        return replace(
            plan,
            sigmas=torch.cat([plan.sigmas[:end], tail]),
            parents=plan.parents[: end + kept],
            rates=plan.rates[: end + kept],
            solver="dpm2m_tail",
        )


class MixGRPO(TiedPolicyGradient):
    """A flat group whose window of stochastic steps slides from the noise to the data as training goes on."""

    name: Literal["mixgrpo"] = "mixgrpo"
    sde: Sde = Field(
        "flow", description="Noise of a step in the window: flow = eta sqrt(sigma / (1 - sigma)), dance, or cps"
    )
    eta: float = Field(0.7, gt=0, le=4, description="Strength of that noise (paper 0.7; cps 0.8)")
    group_size: int = Field(12, ge=2, le=1024, description="Samples for each prompt (FLUX 12, SD3.5 24)")
    shared_noise: bool = Field(True, description="All samples of a prompt start from the same noise (paper)")
    shared_prefix: bool = Field(
        False, description="Evaluate the steps before the window once a prompt: the same samples for less (ours)"
    )
    advantage_mode: advantages.Mode = Field(
        "per_reward", description="Each reward standardised in its group and then summed (paper), or after the sum"
    )
    window: int = Field(4, ge=1, description="Stochastic steps w, which alone are trained (paper 4)")
    kl_weight: float = Field(0.0, ge=0, description="Weight of the KL to the base (FLUX 0, SD3.5 0.001)")
    schedule: Schedule = Field(Progressive(), description="Where the window stands at each training step")
    flash: Flash | None = Field(None, description="A faster end of the rollout (MixGRPO-Flash)")

    @model_validator(mode="after")
    def _check_prefix(self) -> Self:
        if self.shared_prefix and not self.shared_noise:
            raise ValueError(
                "shared_prefix: samples that share their first steps share their noise; set shared_noise to true"
            )
        return self

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains with noise in the window. Raises ValueError when the window does not fit the grid."""
        num_steps = len(sigmas) - 1
        last = num_steps - 1 - self.window
        if last < 0:
            raise ValueError(
                f"window: {self.window} steps do not fit the {num_steps - 1} that can be stochastic; "
                "make it narrower or sample more steps"
            )
        start = self.schedule.start(step, last)
        rates = torch.where(flat.window(num_steps, start, self.window), self._rates(sigmas), 0.0)
        chains = flat.chains(self.group_size, num_steps)
        parents = tree.splits(num_steps, (start,), self.group_size) if self.shared_prefix else chains
        plan = Plan(sigmas, parents, rates, self._noise, shared_noise=self.shared_noise)
        return plan if self.flash is None else self.flash.shorten(plan, start + self.window)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """The window's steps are trained, with each sample's advantage."""
        return flat.credit(rollout, advantages.of(rollout, self.advantage_mode, self.advantage_clip))
