"""DDPO (Black et al. 2023, arXiv 2305.13301): PPO on the denoising steps, with statistics kept for each prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

import torch
from pydantic import Field, model_validator

from backend import tree
from backend.history import PromptHistory
from backend.methods.ddim import DDIMChains, every_noisy_step
from backend.policy_gradient import Objective
from backend.types import Credit, Loss, Policy, Rollout


class DDPO(DDIMChains):
    """A sample's reward, standardised by the recent rewards of its prompt, is the advantage of each of its steps."""

    name: Literal["ddpo"] = "ddpo"
    history: int = Field(32, ge=2, le=4096, description="Latest rewards kept of each prompt (released 16 or 32)")
    min_count: int = Field(
        16, ge=1, description="A prompt with fewer rewards is compared with all samples of the step (released 16)"
    )
    advantage_clip: float = Field(5.0, gt=0, description="Largest magnitude of an advantage (released 5)")
    updates_per_rollout: int = Field(
        1, ge=1, le=256, description="Optimizer steps on each rollout; above 1 the later ones are off-policy"
    )
    replay: bool = Field(
        False,
        description="Recompute old log-probs with the training forward before the first of several updates "
        "(UniRL); for 16-bit networks, whose rounding can exceed the clip range",
    )

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if self.min_count > self.history:
            raise ValueError(
                f"min_count: {self.min_count} rewards of a prompt are never kept, as history is {self.history}; "
                "lower it or keep more"
            )
        return self

    def remember(self, policy: Policy) -> PromptHistory:
        """Empty statistics."""
        return PromptHistory(self.history)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """Advantages from the prompts' statistics, to which this rollout's rewards are added first, as released.

        Called once a step: each call remembers the rewards. Without a memory, it is as in the first step of a run.
        """
        plan, rewards = rollout.plan, rollout.rewards
        assert rewards is not None
        memory = rollout.memory if isinstance(rollout.memory, PromptHistory) else PromptHistory(self.history)
        found = memory.advantages(rollout.prompts, rewards, self.min_count)
        advantages = (found.clamp(-self.advantage_clip, self.advantage_clip),) * plan.num_steps
        values = tree.fuse(plan.parents, rewards, rollout.logps, beta=0)
        return Credit(advantages, every_noisy_step(plan, len(rewards)), values)

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The clipped loss over all stochastic steps, in `updates_per_rollout` parts drawn by `step`."""
        objective = Objective(self.clip_range, replay=self.replay)
        generator = torch.Generator().manual_seed(step)
        return self._losses(policy, rollout, credit, objective, self.updates_per_rollout, generator)
