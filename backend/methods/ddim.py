"""What DDPO and DPOK share: denoising by DDIM with noise, seen as a Markov decision process of independent chains."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from backend import policy_gradient
from backend.methods.settings import MethodSettings
from backend.policy_gradient import Objective
from backend.types import Credit, Loss, Plan, Policy, Rollout


class DDIMChains(MethodSettings):
    """Samples that share nothing, not even their first noise; every stochastic step of each is trained."""

    group_size: int = Field(16, ge=1, le=1024, description="Samples for each prompt; 1 is allowed (ours)")
    eta: float = Field(
        1.0, gt=0, le=1, description="Noise of a step, as a share of DDIM's ancestral noise (both sources 1)"
    )
    clip_range: float = Field(1e-4, gt=0, lt=1, description="The ratio is clipped to 1 +- this (both sources 1e-4)")
    micro_batch: int = Field(64, ge=1, le=65536, description="Most latents in one training forward (ours)")

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains; the last step is deterministic, as DDIM's is for any eta."""
        num_steps = len(sigmas) - 1
        rates = torch.full((num_steps,), self.eta, dtype=torch.float64)
        rates[-1] = 0
        return Plan(sigmas, (torch.arange(self.group_size),) * num_steps, rates, noise="ddim", shared_noise=False)

    def _losses(
        self,
        policy: Policy,
        rollout: Rollout,
        credit: Credit,
        objective: Objective,
        updates: int,
        generator: torch.Generator,
    ) -> Iterator[Loss]:
        return policy_gradient.losses(
            policy,
            rollout,
            credit,
            objective,
            micro_batch=self.micro_batch,
            updates=updates,
            generator=generator,
        )


def every_noisy_step(plan: Plan, num_prompts: int) -> tuple[Tensor, ...]:
    """T x bool [P, G]: also those of a single sample, which is compared with more than its group."""
    return tuple(plan.noisy(step).expand(num_prompts, -1) for step in range(plan.num_steps))
