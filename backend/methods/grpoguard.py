"""GRPO-Guard (Wang et al. 2025, arXiv 2510.22319): Flow-GRPO with a ratio whose mean and spread fit its clip range."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from backend.methods.flowgrpo import FlowGroup
from backend.policy_gradient import Objective
from backend.types import Plan


class GRPOGuard(FlowGroup):
    """log rho = (log p - log p_old + KL) s of each step, and its loss over the step's length D.

    The plain log-ratio has a negative mean and a spread that depends on the step, so good samples seldom reach the
    clip range. With several updates the means of the weights that sampled are evaluated before the first of them.
    """

    name: Literal["grpoguard"] = "grpoguard"
    clip_range: float = Field(
        2e-6, gt=0, lt=1, description="The ratio is clipped to 1 +- this; the guarded one is small (verl-omni 2e-6)"
    )
    step_weight: Literal["inverse_delta", "one"] = Field(
        "inverse_delta", description="Weight of a step's loss: 1 / D evens out the gradients (paper); one: Flow-Factory"
    )

    def objective(self, plan: Plan) -> Objective:
        weights = 1 / (plan.sigmas[:-1] - plan.sigmas[1:]) if self.step_weight == "inverse_delta" else None
        return Objective(
            self.clip_range, ratio="guarded", weights=weights, kl_weight=self.kl_weight, kl_form=self.kl_form
        )
