"""DanceGRPO (Xue et al. 2025, arXiv 2505.07818): a flat group of SDE rollouts, compared by their final rewards."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import tree
from backend.methods.settings import PolicyGradient
from backend.types import Credit, Plan, Rollout


class DanceGRPO(PolicyGradient):
    """Every sample's reward, standardised in its group, is the advantage of each of its trained steps."""

    name: Literal["dancegrpo"] = "dancegrpo"
    group_size: int = Field(12, ge=2, le=1024, description="Samples for each prompt (released FLUX script 12)")
    timestep_fraction: float = Field(
        0.6, gt=0, le=1, description="Share of the stochastic steps that is trained, drawn anew for each sample (0.6)"
    )
    shared_noise: bool = Field(True, description="All samples of a prompt start from the same noise (released script)")

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains. Raises ValueError when the grid has no stochastic step to train."""
        num_steps = len(sigmas) - 1
        self._num_trained(num_steps)
        chains = (torch.arange(self.group_size),) * num_steps
        return Plan(sigmas, chains, self._rates(sigmas), shared_noise=self.shared_noise)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """Group advantages on a random subset of each sample's steps, drawn by `step`; the last step has no density."""
        plan, rewards = rollout.plan, rollout.rewards
        assert rewards is not None
        values = tree.fuse(plan.parents, rewards, rollout.logps, beta=0)
        order = torch.rand(*rewards.shape, plan.num_steps - 1, generator=torch.Generator().manual_seed(step))
        chosen = order.argsort(-1).argsort(-1) < self._num_trained(plan.num_steps)
        keep = (*chosen.unbind(-1), torch.zeros_like(chosen[..., 0]))
        return Credit(tree.depth_advantages(values, self.advantage_clip), keep, values)

    def _num_trained(self, num_steps: int) -> int:
        num_trained = int((num_steps - 1) * self.timestep_fraction)
        if num_trained < 1:
            raise ValueError(
                f"timestep_fraction: {self.timestep_fraction} of {num_steps - 1} stochastic steps trains none; "
                "raise the fraction or the number of sampling steps"
            )
        return num_trained
