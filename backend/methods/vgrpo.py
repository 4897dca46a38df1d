"""V-GRPO (arXiv 2604.23380): GRPO whose log-likelihood is minus a denoising error with little variance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from backend import advantages, matching, surrogate
from backend.advantages import Mode
from backend.methods.forward_process import ForwardProcess
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout


class VGRPO(ForwardProcess):
    """rho = exp(L_old - L) with L the mean error over a few pairs of noise level and noise that a group shares."""

    name: Literal["vgrpo"] = "vgrpo"

    pairs: int = Field(4, ge=1, le=200, description="N_MC, pairs of noise level and noise a sample (paper 4; OCR 10)")
    prediction: Literal["x0", "v", "eps"] = Field(
        "x0", description="Whose error it is: x0 is best, v slower, eps collapses (paper, Fig. 6)"
    )
    adaptive: bool = Field(True, description="Divide an error by its detached mean magnitude (paper, eq. 14)")
    stratified: bool = Field(True, description="One level from each of N_MC chunks of the grid (paper); off = any")
    shared_pairs: bool = Field(True, description="The samples of a group get the same pairs (paper); off for ablation")
    advantages: Mode = Field(
        "group", description="Standardised in the group: the sum of rewards, or per_reward as MixGRPO (FLUX runs)"
    )
    advantage_clip: float = Field(5.0, gt=0, description="Largest magnitude of an advantage (MixGRPO 5)")
    soft_clip: float | None = Field(
        3.0, gt=0, description="Then A <- eta tanh(A / eta) (paper 3 to 5; none with coarse rewards); empty = none"
    )
    updates_per_rollout: int = Field(
        1, ge=1, le=256, description="Optimizer steps on each rollout (SD3.5 1: on-policy; FLUX several, with a clip)"
    )
    clip_range: float | None = Field(
        None, gt=0, lt=1, description="The ratio is clipped to 1 +- this, from the second update on (FLUX 6e-3 to 1e-2)"
    )
    kl_weight: float = Field(
        0.0,
        ge=0,
        description="Weight of the distance to the behaviour policy's prediction, from the second update on "
        "(SD3.5 OCR stage 0.3, paper eq. 16)",
    )

    @model_validator(mode="after")
    def _check_updates(self) -> Self:
        for field, used in (("clip_range", self.clip_range is not None), ("kl_weight", self.kl_weight > 0)):
            if used and self.updates_per_rollout == 1:
                raise ValueError(
                    f"{field}: {getattr(self, field)} never acts on a single update, whose ratio is 1; leave it out or "
                    "raise updates_per_rollout"
                )
        return self

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The clipped surrogate ratio, one for each sample."""
        generator = torch.Generator().manual_seed(step)
        return surrogate.losses(
            policy,
            rollout,
            credit.advantages[-1],
            self._pairs(rollout, generator),
            surrogate.Objective(self._error, self.clip_range, kl_old=self.kl_weight, prediction=self.prediction),
            micro_batch=self.micro_batch,
            updates=self.updates_per_rollout,
            generator=generator,
        )

    def training_cost(self, plan: Plan) -> Cost:
        each, updates = self.group_size * self.pairs, self.updates_per_rollout
        return Cost(trained=each, evaluated=each * (updates - 1) // updates, updates=updates)

    def _pairs(self, rollout: Rollout, generator: torch.Generator) -> matching.Pairs:
        x0 = rollout.states[-1]
        size = (len(rollout.prompts), 1 if self.shared_pairs else x0.shape[1], self.pairs)
        sigma = matching.levels(rollout.plan.sigmas[:-1], size, self.stratified, generator)
        return matching.pairs(rollout, sigma, self.shared_pairs, generator)

    def _error(self, v: Tensor, at: matching.Noised) -> Tensor:
        difference = matching.residual(v, at.target, at.sigma, self.prediction)
        return matching.adaptive(difference) if self.adaptive else matching.mean_square(difference)

    def _advantages(self, rollout: Rollout) -> Tensor:
        found = advantages.of(rollout, self.advantages, self.advantage_clip)
        return found if self.soft_clip is None else soft_clip(found, self.soft_clip)

    def _together(self, group_size: int) -> int:
        return self.pairs


def soft_clip(advantage: Tensor, eta: float) -> Tensor:
    """eta tanh(A / eta): A itself where it is small, never beyond eta (V-GRPO, eq. 17)."""
    return eta * torch.tanh(advantage / eta)
