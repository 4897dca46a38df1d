"""Online Diffusion-DPO (arXiv 2311.12908; as Flow-DPO in Flow-GRPO): the best of a group is preferred to its worst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import matching
from backend.advantages import FLOOR
from backend.methods.forward_process import ForwardProcess
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout, Weights


class DPO(ForwardProcess):
    """The Bradley-Terry likelihood of one pair a group; both samples get the same noise."""

    name: Literal["dpo"] = "dpo"
    keeps_old: ClassVar[bool] = True

    beta: float = Field(100.0, gt=0, description="Sharpness of the preference (Flow-DPO 100; Diffusion-DPO 5000)")
    train_timesteps: int = Field(4, ge=1, le=1000, description="Noise levels of a pair (ours: as many as DGPO)")
    time_sampling: Literal["logit_normal", "uniform"] = Field(
        "logit_normal", description="Law of a level's place on the grid: logit-normal (Flow-DPO), or uniform (paper)"
    )
    sync_reference_every: int = Field(
        40,
        ge=0,
        description="Training steps after which the reference becomes the current weights (Flow-DPO 40); "
        "0 = it stays the base model",
    )

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """-log sigmoid of the pairs' margins, averaged over pairs and levels. A group of equal rewards has no pair."""
        x0, generator = rollout.states[-1], torch.Generator().manual_seed(step)
        signal = credit.advantages[-1].cpu()
        prompts = signal.abs().sum(1).nonzero().flatten()
        shape = (len(signal), 1, self.train_timesteps)
        if self.time_sampling == "uniform":
            place = torch.rand(shape, generator=generator, dtype=torch.float64)
        else:
            place = torch.randn(shape, generator=generator, dtype=torch.float64).sigmoid()
        drawn = matching.pairs(rollout, matching.between(rollout.plan.sigmas, place), True, generator)
        both = rollout.of_own(torch.stack([signal.argmax(1), signal.argmin(1)], dim=1))

        def evaluate(units: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            prompt, level = units // self.train_timesteps, units % self.train_timesteps
            items = (prompt[:, None] * x0.shape[1] + both[prompt]) * self.train_timesteps + level[:, None]
            return self._evaluate(policy, rollout, matching.noised(rollout, drawn, items.flatten()))

        skipped = {"train/skipped_groups": 1 - len(prompts) / len(signal)}
        if len(prompts):
            units = (prompts[:, None] * self.train_timesteps + torch.arange(self.train_timesteps)).flatten()
            shuffled = units[torch.randperm(len(units), generator=generator)]
            per_batch, own = matching.units_per_batch(self.micro_batch, 2), rollout.own(self.train_timesteps)
            for loss in matching.accumulate(shuffled, per_batch, evaluate, own):
                yield replace(loss, metrics=loss.metrics | skipped)
        if self.sync_reference_every and (step + 1) % self.sync_reference_every == 0:
            policy.track_old(0.0)

    def training_cost(self, plan: Plan) -> Cost:
        return Cost(trained=2 * self.train_timesteps, evaluated=2 * self.train_timesteps, updates=1)

    def _evaluate(self, policy: Policy, rollout: Rollout, at: matching.Noised) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses [U] of pairs that lie one after the other, better sample first."""
        reference: Weights = "old" if self.sync_reference_every else "reference"
        error, error_ref = (
            matching.mean_square(matching.velocity(policy, rollout, at, weights) - at.target)
            for weights in ("current", reference)
        )
        better, worse = (error - error_ref).view(-1, 2).unbind(1)
        loss = preference_loss(better, worse, self.beta)
        columns = {"train/pair_accuracy": (better < worse).detach(), "train/margin": (worse - better).detach()}
        return loss, columns

    def _advantages(self, rollout: Rollout) -> Tensor:
        """1 at the best, -1 at the worst sample of a group (the first of equals), else 0; all 0 where all are equal.

        Samples that could not be judged (NaN) are neither.
        """
        assert rollout.rewards is not None
        rewards = rollout.rewards.double()
        best = rewards.nan_to_num(-torch.inf).argmax(1, keepdim=True)
        worst = rewards.nan_to_num(torch.inf).argmin(1, keepdim=True)
        one = (rewards.gather(1, best) - rewards.gather(1, worst) > FLOOR).to(rewards)
        return torch.zeros_like(rewards).scatter_add(1, best, one).scatter_add(1, worst, -one)

    def _together(self, group_size: int) -> int:
        return 2


def preference_loss(better: Tensor, worse: Tensor, beta: float) -> Tensor:
    """-log sigmoid(-beta / 2 [(l_w - l_w^ref) - (l_l - l_l^ref)]), of the gaps of both samples [N] (Diffusion-DPO)."""
    return -torch.nn.functional.logsigmoid(-0.5 * beta * (better - worse))
