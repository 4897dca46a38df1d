"""DGPO (arXiv 2510.08425, ICLR 2026): a group's better samples are preferred to its worse ones, as groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import advantages, matching
from backend.methods.forward_process import ForwardProcess
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout, Weights


class DGPO(ForwardProcess):
    """A Bradley-Terry likelihood of the group of positive advantages over the rest, on noise that a group shares."""

    name: Literal["dgpo"] = "dgpo"
    keeps_old: ClassVar[bool] = True

    beta: float = Field(100.0, gt=0, description="Sharpness of the preference (paper 100; 10 to 1000 are stable)")
    advantages: Literal["group", "global_std"] = Field(
        "group", description="Std of an advantage: of the prompt (paper, GenEval) or of all samples (release: OCR)"
    )
    advantage_clip: float = Field(5.0, gt=0, description="Largest magnitude of an advantage (release 5)")
    train_timesteps: int = Field(
        4, ge=1, le=200, description="Noise levels of a training step, the same for all groups (release 4)"
    )
    t_min: float = Field(
        0.4,
        ge=0,
        lt=1,
        description="Lowest level trained, as unshifted time: without it pictures blur, as rollouts have few steps "
        "(paper 0.3 to 0.4; release trunc_steps 6 of 10 = 0.4)",
    )
    shared_pairs: bool = Field(True, description="The samples of a group get the same noise (paper); off for ablation")
    clip_range: float | None = Field(
        1e-2,
        gt=0,
        lt=1,
        description="A sample whose denoising error has moved this far from the old weights' in its advantage's "
        "direction has no gradient (release 5e-2, its tasks 1e-2); empty = none",
    )
    kl_weight: float = Field(
        0.02, ge=0, description="Weight of the squared distance to the base model's velocity (release 0.02)"
    )
    reference: Literal["base", "old"] = Field(
        "base", description="Weights whose errors are the reference: the base (paper), or the old ones (TDM-R1)"
    )
    old_decay: float = Field(
        0.3, ge=0, lt=1, description="Old weights: old <- d old + (1 - d) current, d = min(this, 0.001 k), at update k"
    )
    switch_old: int = Field(200, ge=0, description="Updates after which the old weights sample (paper 200)")
    updates_per_rollout: int = Field(1, ge=1, le=256, description="Optimizer steps on each rollout (release 1)")

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains. Raises ValueError when fewer levels lie above t_min than are to be trained."""
        candidates(sigmas, self.t_min, self.train_timesteps)
        return super().plan(step, sigmas)

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The detached-weight loss of the release; the old weights move after every optimizer step.

        Its gradient is 1 / beta of that of the mean over groups and levels of -log sigmoid(-S).
        """
        x0, generator = rollout.states[-1], torch.Generator().manual_seed(step)
        num_prompts, group_size = len(rollout.prompts), x0.shape[1]
        above = candidates(rollout.plan.sigmas, self.t_min, self.train_timesteps)
        chosen = above[torch.randperm(len(above), generator=generator)[: self.train_timesteps]]
        drawn = matching.pairs(rollout, chosen.expand(num_prompts, 1, -1), self.shared_pairs, generator)
        per_batch = matching.units_per_batch(self.micro_batch, group_size)
        parts = matching.deal(num_prompts * len(chosen), self.updates_per_rollout, generator)
        signal, own = rollout.of_own(credit.advantages[-1]).to(x0.device), rollout.own(len(chosen))

        def evaluate(units: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            return self._evaluate(policy, rollout, drawn, signal, units)

        for number, part in enumerate(parts, start=1):
            yield from matching.accumulate(part, per_batch, evaluate, own)
            policy.track_old(old_decay(step * self.updates_per_rollout + number, self.old_decay))

    def training_cost(self, plan: Plan) -> Cost:
        each = self.group_size * self.train_timesteps
        return Cost(trained=each, evaluated=each * len(self._compared()), updates=self.updates_per_rollout)

    def _evaluate(
        self, policy: Policy, rollout: Rollout, drawn: matching.Pairs, signal: Tensor, units: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses [U] of whole groups at one level each; a unit is an index into [P, J] laid out flat."""
        group_size, num_levels = drawn.sigma.shape[1:]
        prompt, level = units // num_levels, units % num_levels
        sample = torch.arange(group_size)
        items = ((prompt[:, None] * group_size + sample) * num_levels + level[:, None]).flatten()
        at = matching.noised(rollout, drawn, items)
        advantage = signal[at.prompt, sample.repeat(len(units)).to(signal.device)]
        v = matching.velocity(policy, rollout, at)
        error = matching.mean_square(v - at.target)
        others = {weights: matching.velocity(policy, rollout, at, weights) for weights in self._compared()}
        error_ref = matching.mean_square(others["reference" if self.reference == "base" else "old"] - at.target)
        group = torch.arange(len(units), device=error.device).repeat_interleave(group_size)
        sums = partial_sums(advantage, error.detach() - error_ref, group, len(units))
        weight = preference_weights(sums, group_size, self.beta)
        columns = {"train/preference_weight": weight}
        if self.clip_range is not None:
            log_ratio = matching.mean_square(others["old"] - at.target) - error.detach()
            clipped = moved_far(log_ratio, advantage, self.clip_range)
            error = torch.where(clipped, error.detach(), error)
            columns |= {"train/ratio_mean": log_ratio.exp(), "train/clipfrac": clipped}
        loss = weight[group] * advantage * error
        if self.kl_weight > 0:
            kl = matching.mean_square(v - others["reference"])
            loss = loss + self.kl_weight * kl
            columns["train/kl_ref"] = kl.detach()
        return loss.view(-1, group_size).mean(1), columns

    def _compared(self) -> list[Weights]:
        """The weights that each latent is evaluated with, besides the current ones."""
        needed: dict[Weights, bool] = {
            "reference": self.reference == "base" or self.kl_weight > 0,
            "old": self.reference == "old" or self.clip_range is not None,
        }
        return [weights for weights, used in needed.items() if used]

    def _advantages(self, rollout: Rollout) -> Tensor:
        # The biased std of the release: with it a group of two is exactly a pair of Diffusion-DPO.
        return advantages.of(rollout, self.advantages, self.advantage_clip, unbiased=False)

    def _together(self, group_size: int) -> int:
        return group_size

    def _sampling_weights(self, step: int) -> Weights:
        return "old" if step * self.updates_per_rollout > self.switch_old else "current"


def candidates(sigmas: Tensor, t_min: float, needed: int) -> Tensor:
    """The grid's levels from pure noise down to unshifted time t_min, [K] of [T+1]. Raises ValueError on too few.

    Index i of a shifted grid lies at unshifted time 1 - i / T. The end of the grid, which is data, is no candidate.
    """
    num_steps = len(sigmas) - 1
    number = min(int((1 - t_min) * num_steps + 1e-9) + 1, num_steps)
    if number < needed:
        raise ValueError(
            f"train_timesteps: only {number} of the {num_steps} levels lie above t_min {t_min}, which is fewer than "
            f"{needed}; train fewer, lower t_min or sample more steps"
        )
    return sigmas[:number]


def partial_sums(advantage: Tensor, gap: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """[num_groups, 2]: sum of A_i (l_i - l_i^ref) of each group, and how many samples it is made of.

    advantage, gap [N], group Long[N]. Both columns add over batches or processes that hold parts of a group.
    """
    columns = torch.stack([advantage * gap, torch.ones_like(gap)], dim=1)
    return columns.new_zeros(num_groups, 2).index_add(0, group, columns)


def preference_weights(sums: Tensor, group_size: int, beta: float) -> Tensor:
    """sigmoid(S) with S = beta / G sum_i A_i (l_i - l_i^ref), [num_groups]: 1 where the worse samples are preferred.

    Raises ValueError on an incomplete group: its advantages do not add up to 0, so the partition function stays.
    """
    incomplete = sums[:, 1] != group_size
    if incomplete.any():
        found = int(sums[incomplete][0, 1])
        raise ValueError(
            f"group_size: a group has {found} of its {group_size} samples, but DGPO's normalisers cancel only over "
            "whole groups; add the sums of all its parts first"
        )
    return torch.sigmoid(beta / group_size * sums[:, 0])


def moved_far(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Bool[N]: samples with rho = exp(l_old - l) beyond 1 + clip where A > 0, or below 1 - clip where A <= 0."""
    ratio = log_ratio.exp()
    return torch.where(advantage > 0, ratio > 1 + clip, ratio < 1 - clip)


def old_decay(updates: int, most: float) -> float:
    """Decay of the old weights after `updates` optimizer steps of the run: min(most, 0.001 updates)."""
    return min(most, 0.001 * updates)
