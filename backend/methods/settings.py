"""What methods share: strict settings, and the fields of those that train on log-probabilities of an SDE rollout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from backend import flow, policy_gradient
from backend.policy_gradient import Objective
from backend.types import Cost, Credit, Loss, Memory, Noise, Plan, Policy, Rollout

Sde = Literal["dance", "flow", "cps"]


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

    def training_cost(self, plan: Plan) -> Cost | None:
        """Counted on the credit: a forward for each parent of a kept edge."""
        return None


class Trajectory(MethodSettings):
    """A method that trains on the stochastic steps of its own rollouts."""

    sde: Sde = Field(
        "dance",
        description="Noise of a stochastic step: dance = constant eta, flow = eta sqrt(sigma / (1 - sigma)), "
        "cps = coefficients-preserving, of std sigma' sin(eta pi / 2)",
    )
    eta: float = Field(
        0.3, gt=0, le=4, description="Strength of that noise (DanceGRPO and BranchGRPO 0.3; flow 0.7; cps 0.8, below 1)"
    )
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
    micro_batch: int = Field(64, ge=1, le=65536, description="Most latents in one training forward (ours)")

    @model_validator(mode="after")
    def _check_eta(self) -> Self:
        if self.sde == "cps" and self.eta >= 1:
            raise ValueError(
                f"eta: with sde cps it must be below 1, at which a step forgets its latent's noise, got {self.eta}"
            )
        return self

    def objective(self, plan: Plan) -> Objective:
        """What the loss of each edge is."""
        return Objective(self.clip_range)

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The objective over the kept edges, in `updates_per_rollout` parts drawn by `step`."""
        return policy_gradient.losses(
            policy,
            rollout,
            credit,
            self.objective(rollout.plan),
            micro_batch=self.micro_batch,
            updates=self.updates_per_rollout,
            generator=torch.Generator().manual_seed(step),
        )

    @property
    def _noise(self) -> Noise:
        return "cps" if self.sde == "cps" else "sde"

    def _rates(self, sigmas: Tensor) -> Tensor:
        """float64 [T]; the last step is deterministic, so the leaves are the predicted data and carry no noise."""
        rates = flow.flow_sde_rates(sigmas, self.eta) if self.sde == "flow" else flow.dance_rates(sigmas, self.eta)
        rates[-1] = 0
        return rates


class PolicyGradient(Trajectory):
    """A method whose loss is the clipped likelihood ratio over the edges of its rollout."""

    cps_logprob: Literal["gaussian", "unscaled"] = Field(
        "gaussian",
        description="Log-prob of a CPS step: of its Gaussian, or without 1 / (2 std^2) as released with FlowCPS, "
        "which needs a smaller clip range",
    )
    replay: bool = Field(
        False,
        description="Recompute old log-probs with the training forward before the first of several updates "
        "(UniRL); for 16-bit networks, whose rounding can exceed the clip range",
    )

    @model_validator(mode="after")
    def _check_logprob(self) -> Self:
        if self.cps_logprob == "unscaled" and self.sde != "cps":
            raise ValueError(f"cps_logprob: unscaled is for sde cps, got sde {self.sde}; set it to gaussian")
        return self

    def objective(self, plan: Plan) -> Objective:
        return Objective(self.clip_range, ratio=self.cps_logprob, replay=self.replay)


class ReferenceKL(Settings):
    """The penalty of methods that stay near their reference weights, the base before training."""

    kl_weight: float = Field(0.04, ge=0, description="Weight of the KL to the base; 0 saves its forward")
    kl_form: Literal["released", "gaussian"] = Field(
        "released",
        description="KL of a step: mean (mu - mu_ref)^2 / (2 s^2) is gaussian; the release's is D times it, "
        "smaller, for the same weight (Flow-GRPO, whose weights are for released)",
    )


class TiedPolicyGradient(PolicyGradient, ReferenceKL):
    """A policy gradient with a KL to the base."""

    def objective(self, plan: Plan) -> Objective:
        return Objective(
            self.clip_range,
            ratio=self.cps_logprob,
            kl_weight=self.kl_weight,
            kl_form=self.kl_form,
            replay=self.replay,
        )

    def training_cost(self, plan: Plan) -> Cost:
        return policy_gradient.cost(plan, self.objective(plan), self.updates_per_rollout)
