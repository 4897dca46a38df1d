"""What methods share that train on forward-noised final samples: any sampler will do, and no trajectory is kept."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import flow, matching
from backend.methods.settings import MethodSettings
from backend.types import Credit, Plan, Rollout, Weights

SDE_A = 0.7


class ForwardProcess(MethodSettings):
    """A flat group of independent samples, scored, and compared at noise levels of the training grid."""

    samples_only: ClassVar[bool] = True

    group_size: int = Field(24, ge=2, le=1024, description="Samples G for each prompt (DGPO, V-GRPO, DiffusionNFT 24)")
    solver: Literal["dpm2m", "euler", "sde"] = Field(
        "dpm2m",
        description="Sampler of the rollout: DPM-Solver++ 2M (DGPO, DiffusionNFT), the Euler ODE (V-GRPO on SD3.5), or "
        "Flow-GRPO's SDE with a = 0.7, for ablation (DGPO, Fig. 5: slower and worse)",
    )
    micro_batch: int = Field(64, ge=1, le=65536, description="Most latents in one training forward (ours)")

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains, of which the ends are kept. Raises ValueError when a micro-batch is too small."""
        matching.units_per_batch(self.micro_batch, self._together(self.group_size))
        num_steps = len(sigmas) - 1
        rates = torch.zeros(num_steps, dtype=torch.float64)
        if self.solver == "sde":
            rates[:-1] = flow.flow_sde_rates(sigmas, SDE_A)[:-1]
        return Plan(
            sigmas,
            (torch.arange(self.group_size),) * num_steps,
            rates,
            solver="euler" if self.solver == "sde" else self.solver,
            shared_noise=False,
            weights=self._sampling_weights(step),
            keep="last",
        )

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """Each sample's advantage at its last edge, which is the only one kept; its reward all along its chain."""
        assert rollout.rewards is not None
        rewards, before = rollout.rewards.double(), rollout.plan.num_steps - 1
        none, every = torch.zeros_like(rewards), torch.ones_like(rewards, dtype=torch.bool)
        return Credit(
            advantages=(none,) * before + (self._advantages(rollout),),
            keep=(~every,) * before + (every,),
            values=(rewards,) * (before + 2),
        )

    def _advantages(self, rollout: Rollout) -> Tensor:
        """float64 [P, G]."""
        raise NotImplementedError

    def _together(self, group_size: int) -> int:
        """Latents that have to be in one forward."""
        return 1

    def _sampling_weights(self, step: int) -> Weights:
        return "current"
