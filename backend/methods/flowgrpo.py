"""Flow-GRPO (Liu et al. 2025, arXiv 2505.05470) and its Fast form: a flat group of SDE rollouts, held near the base."""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from backend import advantages, policy_gradient, tree
from backend.methods import flat
from backend.methods.settings import ReferenceKL, Sde, Settings, TiedPolicyGradient, Trajectory
from backend.types import Cost, Credit, Plan, Rollout


class FastWindow(Settings):
    """Flow-GRPO-Fast: noise and training on a few consecutive steps, drawn for each training step; ODE elsewhere."""

    size: int = Field(3, ge=1, description="Stochastic steps (release 3)")
    first: int = Field(0, ge=0, description="Earliest step of the window (release 0)")
    stop: int | None = Field(
        None, ge=1, description="Step that ends the range the window lies in (empty: half of the steps, as release)"
    )
    shared_prefix: bool = Field(
        False, description="One ODE path a prompt up to the window, where the group splits (first version of Fast)"
    )

    def start(self, num_steps: int, step: int) -> int:
        """First step of the window, uniform over the places that fit; the same for all groups of a training step.

        Raises ValueError when no place fits.
        """
        stop = num_steps // 2 if self.stop is None else self.stop
        if stop > num_steps - 1:
            raise ValueError(
                f"fast.stop: the range ends before step {stop}, but step {num_steps - 1}, the last, is deterministic; "
                f"choose at most {num_steps - 1}"
            )
        places = stop - self.first - self.size + 1
        if places < 1:
            raise ValueError(
                f"fast.size: a window of {self.size} steps does not fit into steps {self.first} to {stop - 1}; "
                "make it narrower, widen the range or sample more steps"
            )
        return self.first + int(torch.randint(places, (), generator=torch.Generator().manual_seed(step)))


class FlowGroup(Trajectory, ReferenceKL):
    """The rollouts and advantages of Flow-GRPO, which GRPO-Guard shares."""

    sde: Sde = Field(
        "flow", description="Noise of a stochastic step: flow = eta sqrt(sigma / (1 - sigma)), dance, or cps (Fast)"
    )
    eta: float = Field(0.7, gt=0, le=4, description="Strength of that noise (SD3.5 0.7, FLUX 0.9; cps 0.8)")
    group_size: int = Field(24, ge=2, le=1024, description="Samples for each prompt (release 24)")
    shared_noise: bool = Field(False, description="All samples of a prompt start from the same noise (release: no)")
    advantage_mode: advantages.Mode = Field(
        "global_std",
        description="Rewards less their prompt's mean, over the std of all samples (release) or of the group; "
        "per_reward and gdpo standardise each reward first",
    )
    fast: FastWindow | None = Field(None, description="Noise in a short window of steps alone (Flow-GRPO-Fast)")

    @model_validator(mode="after")
    def _check_prefix(self) -> Self:
        if self.fast is not None and self.fast.shared_prefix and not self.shared_noise:
            raise ValueError(
                "fast.shared_prefix: samples that share their first steps share their noise; set shared_noise to true"
            )
        return self

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains, or one path that fans out. Raises ValueError when the window does not fit the grid."""
        num_steps = len(sigmas) - 1
        rates, parents = self._rates(sigmas), flat.chains(self.group_size, num_steps)
        if self.fast is not None:
            start = self.fast.start(num_steps, step)
            rates = torch.where(flat.window(num_steps, start, self.fast.size), rates, 0.0)
            if self.fast.shared_prefix:
                parents = tree.splits(num_steps, (start,), self.group_size)
        return Plan(sigmas, parents, rates, self._noise, shared_noise=self.shared_noise)

    def training_cost(self, plan: Plan) -> Cost:
        return policy_gradient.cost(plan, self.objective(plan), self.updates_per_rollout)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """Every stochastic step is trained; stds are biased, as in the release."""
        found = advantages.of(rollout, self.advantage_mode, self.advantage_clip, unbiased=False)
        return flat.credit(rollout, found)


class FlowGRPO(FlowGroup, TiedPolicyGradient):
    """Clipped likelihood ratio with a KL to the base."""

    name: Literal["flowgrpo"] = "flowgrpo"
    clip_range: float = Field(1e-4, gt=0, lt=1, description="The ratio is clipped to 1 +- this (1e-4; Fast 1e-5)")
