"""TempFlow-GRPO (He et al. 2025, arXiv 2508.04324): noise at one step of a path alone, whose credit its reward is.

Shape legend
    P prompts, T steps, B branching steps, K children at each; the leaves are ordered by branching step: G = B K.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from backend import flow, policy_gradient, tree
from backend.advantages import standardise
from backend.methods.settings import PolicyGradient, ReferenceKL, Sde
from backend.policy_gradient import Objective
from backend.types import Cost, Credit, Plan, Rollout

RELEASED_FACTOR = 2.25


class TempFlow(PolicyGradient, ReferenceKL):
    """One ODE path a prompt, the trunk, from which K children leave by an SDE step at each branching step.

    Each child is finished by the ODE and compared with its siblings. The trunk ends at the last branching step: a leaf
    of its own would have no sibling with another noise to be compared with.
    """

    name: Literal["tempflow"] = "tempflow"
    sde: Sde = Field(
        "flow", description="Noise of a branching step: flow = eta sqrt(sigma / (1 - sigma)), dance, or cps"
    )
    eta: float = Field(0.7, gt=0, le=4, description="Strength of that noise (SD3.5 0.7, FLUX 0.9)")
    branches: int = Field(6, ge=2, le=64, description="Children K at a branching step (release 6)")
    branch_steps: tuple[int, ...] | None = Field(
        None, min_length=1, description="Denoising steps with children, from 0 (empty: all but the last, as paper)"
    )
    step_weight: Literal["noise", "released", "one"] = Field(
        "noise",
        description="Weight of a step's surrogate: its noise's std over the mean of the trained steps' (paper, eq. 8), "
        "2.25 times the std (release), or 1",
    )
    kl_weight: float = Field(0.004, ge=0, description="Weight of the KL to the base (SD3.5 0.004, FLUX 0.001)")

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        steps = self.branch_steps
        if steps is not None and (steps[0] < 0 or any(later <= earlier for earlier, later in pairwise(steps))):
            raise ValueError(f"branch_steps: steps must rise from 0 on without repeats, got {list(steps)}; sort them")
        return self

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """The comb: level i+1 holds the trunk, then the children of earlier steps, then those of step i.

        Raises ValueError when a branching step is the last, deterministic one.
        """
        num_steps = len(sigmas) - 1
        at = self._branching(num_steps)
        rates = self._rates(sigmas)
        rates[[i for i in range(num_steps) if i not in at]] = 0
        parents, still, width = [], [], 1
        for i in range(num_steps):
            born = self.branches if i in at else 0
            going_on = torch.arange(1 if i == at[-1] else 0, width)
            parents.append(torch.cat([going_on, torch.zeros(born, dtype=torch.long)]))
            width = len(parents[-1])
            still.append(torch.arange(width) < len(going_on))
        return Plan(sigmas, tuple(parents), rates, self._noise, still=tuple(still))

    def training_cost(self, plan: Plan) -> Cost:
        return policy_gradient.cost(plan, self.objective(plan), self.updates_per_rollout)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """A child's advantage is its leaf's reward, standardised among its siblings; only edges with noise are kept."""
        plan, rewards = rollout.plan, rollout.rewards
        assert rewards is not None
        siblings = standardise(rewards.double().view(-1, self.branches), unbiased=False)
        leaves = siblings.view_as(rewards).clamp(-self.advantage_clip, self.advantage_clip)
        values = tree.fuse(plan.parents, rewards, rollout.logps, beta=0)
        edges = tree.fuse(plan.parents, leaves, rollout.logps, beta=0)[1:]
        keep = tuple(able.to(rewards.device) for able in tree.trainable(plan, len(rewards)))
        return Credit(edges, keep, values)

    def objective(self, plan: Plan) -> Objective:
        return Objective(
            self.clip_range,
            ratio=self.cps_logprob,
            weights=self._weights(plan),
            kl_weight=self.kl_weight,
            kl_form=self.kl_form,
            replay=self.replay,
        )

    def _weights(self, plan: Plan) -> Tensor | None:
        """float64 [T]. The std of the noise is sigma_t sqrt(D) of the paper; the mean is over the branching steps."""
        if self.step_weight == "one":
            return None
        unit = torch.zeros(plan.num_steps, 1, dtype=torch.float64)
        std = flow.mean_std(unit, unit, plan.sigmas[:-1], plan.sigmas[1:], plan.rates, plan.noise)[1]
        return RELEASED_FACTOR * std if self.step_weight == "released" else std / std[plan.rates > 0].mean()

    def _branching(self, num_steps: int) -> tuple[int, ...]:
        steps = tuple(range(num_steps - 1)) if self.branch_steps is None else self.branch_steps
        if steps[-1] >= num_steps - 1:
            raise ValueError(
                f"branch_steps: step {steps[-1]} cannot branch in {num_steps} sampling steps, because step "
                f"{num_steps - 1}, the last, is deterministic; branch earlier or sample more steps"
            )
        return steps
