"""DanceGRPO (Xue et al. 2025, arXiv 2505.07818): a flat group of SDE rollouts, compared by their final rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from backend import advantages
from backend.methods import flat
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
    advantage_mode: Literal["group", "all", "per_reward", "gdpo"] = Field(
        "group",
        description="Standardised in the group (released --use_group) or over all samples of the step (without it); "
        "per_reward: each reward in its group, whose losses add up (released for video)",
    )
    best_of: int | None = Field(
        None,
        ge=2,
        multiple_of=2,
        description="Train only the best and the worst half of this many samples of a group (HunyuanVideo: 8 of 24)",
    )

    @model_validator(mode="after")
    def _check_best_of(self) -> Self:
        if self.best_of is not None and self.best_of > self.group_size:
            raise ValueError(
                f"best_of: {self.best_of} samples cannot be chosen from a group of {self.group_size}; "
                "lower it or raise group_size"
            )
        return self

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains. Raises ValueError when the grid has no stochastic step to train."""
        num_steps = len(sigmas) - 1
        self._num_trained(num_steps)
        chains = flat.chains(self.group_size, num_steps)
        return Plan(sigmas, chains, self._rates(sigmas), self._noise, shared_noise=self.shared_noise)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """Advantages on a random subset of each chosen sample's steps, drawn by `step`; the last has no density."""
        num_steps, rewards = rollout.plan.num_steps, rollout.rewards
        assert rewards is not None
        order = torch.rand(*rewards.shape, num_steps - 1, generator=torch.Generator().manual_seed(step))
        drawn = (order.argsort(-1).argsort(-1) < self._num_trained(num_steps)).to(rewards.device)
        found = self._advantages(rollout)
        chosen = drawn & self._extreme(found)[..., None]
        keep = (*chosen.unbind(-1), torch.zeros_like(chosen[..., 0]))
        return replace(flat.credit(rollout, found), keep=keep)

    def _advantages(self, rollout: Rollout) -> Tensor:
        """[P, G], compared with all samples of a group whether they are trained or not."""
        if self.advantage_mode != "all":
            return advantages.of(rollout, self.advantage_mode, self.advantage_clip)
        assert rollout.rewards is not None
        found = advantages.standardise(rollout.rewards.double().view(1, -1)).view_as(rollout.rewards)
        return found.clamp(-self.advantage_clip, self.advantage_clip)

    def _extreme(self, found: Tensor) -> Tensor:
        """Bool [P, G]: the best_of / 2 samples of a group with the lowest and with the highest advantage, or all."""
        if self.best_of is None:
            return torch.ones_like(found, dtype=torch.bool)
        rank, half = found.argsort(dim=1, stable=True).argsort(dim=1), self.best_of // 2
        return (rank < half) | (rank >= found.shape[1] - half)

    def _num_trained(self, num_steps: int) -> int:
        num_trained = int((num_steps - 1) * self.timestep_fraction)
        if num_trained < 1:
            raise ValueError(
                f"timestep_fraction: {self.timestep_fraction} of {num_steps - 1} stochastic steps trains none; "
                "raise the fraction or the number of sampling steps"
            )
        return num_trained
