"""What methods share: strict settings, and the fields of those that train on log-probabilities of an SDE rollout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from backend import flow, policy_gradient
from backend.types import Credit, Loss, Memory, Policy, Rollout


class Settings(BaseModel):
    """Hyperparameters: immutable, and a name that does not exist is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MethodSettings(Settings):
    """What a method says of itself to the loop, unless it overrides it."""

    keeps_old: ClassVar[bool] = False
    samples_only: ClassVar[bool] = False

    def remember(self, policy: Policy) -> Memory | None:
        """Nothing is kept between steps."""
        return None


class PolicyGradient(MethodSettings):
    """A method whose loss is the clipped ratio over the edges of its rollout."""

    sde: Literal["dance", "flow"] = Field(
        "dance", description="Noise of a stochastic step: dance = constant eta, flow = eta sqrt(sigma / (1 - sigma))"
    )
    eta: float = Field(0.3, gt=0, le=4, description="Strength of that noise (DanceGRPO and BranchGRPO 0.3; flow 0.7)")
    clip_range: float = Field(
        1e-4,
        gt=0,
        lt=1,
        description="The ratio is clipped to 1 +- this; small, as log-probs are means (DanceGRPO 1e-4)",
    )
    advantage_clip: float = Field(5.0, gt=0, description="Largest magnitude of an advantage (DanceGRPO, BranchGRPO 5)")
    updates_per_rollout: int = Field(
        1, ge=1, le=256, description="Optimizer steps on each rollout; above 1 the later ones are off-policy"
    )
    replay: bool = Field(
        False,
        description="Recompute old log-probs with the training forward before the first of several updates "
        "(UniRL); for 16-bit networks, whose rounding can exceed the clip range",
    )
    micro_batch: int = Field(64, ge=1, le=65536, description="Most latents in one training forward (ours)")

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The clipped loss over the kept edges, in `updates_per_rollout` parts drawn by `step`."""
        return policy_gradient.losses(
            policy,
            rollout,
            credit,
            clip=self.clip_range,
            micro_batch=self.micro_batch,
            updates=self.updates_per_rollout,
            replay=self.replay,
            generator=torch.Generator().manual_seed(step),
        )

    def _rates(self, sigmas: Tensor) -> Tensor:
        """float64 [T]; the last step is deterministic, so the leaves are the predicted data and carry no noise."""
        rates = flow.dance_rates(sigmas, self.eta) if self.sde == "dance" else flow.flow_sde_rates(sigmas, self.eta)
        rates[-1] = 0
        return rates
