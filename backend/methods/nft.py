"""DiffusionNFT (arXiv 2509.16117, ICLR 2026): a positive and an implied negative policy both match the samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import advantages, matching
from backend.methods.forward_process import ForwardProcess
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout, Weights


class NFT(ForwardProcess):
    """Good samples pull the mix (1 - beta) v_old + beta v towards them, bad ones its mirror image about v_old."""

    name: Literal["nft"] = "nft"
    keeps_old: ClassVar[bool] = True

    beta: float = Field(1.0, gt=0, le=10, description="Share of v in the mixes; smaller reaches farther (1; OCR 0.1)")
    advantages: Literal["group", "global_std"] = Field(
        "global_std", description="Std of an advantage: of the prompt, or of all samples of the step (release)"
    )
    advantage_clip: float = Field(
        5.0, gt=0, description="Advantages of this size mean optimality 0 and 1, and larger ones are clipped (release)"
    )
    timestep_fraction: float = Field(
        0.99, gt=0, le=1, description="Share of the grid's levels trained, drawn anew for each sample (release 0.99)"
    )
    adaptive: bool = Field(True, description="Divide each branch's error by its own detached magnitude (paper)")
    kl_weight: float = Field(
        1e-4, ge=0, description="Weight of the squared distance to the base model's velocity (release 1e-4)"
    )
    old_decay: Literal[0, 1, 2] = Field(
        1,
        description="How old weights, which sample, follow after training step i: old <- d old + (1 - d) current with "
        "d = 0 (type 0), min(0.001 i, 0.5) (1), or 0 until 75 and then 0.0075 (i - 75) up to 0.999 (2, OCR)",
    )
    updates_per_rollout: int = Field(1, ge=1, le=256, description="Optimizer steps on each rollout (release 1; OCR 2)")

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size chains from the old weights. Raises ValueError when timestep_fraction leaves no level to train."""
        self._num_levels(len(sigmas) - 1)
        return super().plan(step, sigmas)

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The two branches' errors, averaged over all samples and levels; the old weights move at the end."""
        assert rollout.rewards is not None
        x0, generator = rollout.states[-1], torch.Generator().manual_seed(step)
        sigmas, shape = rollout.plan.sigmas[:-1], rollout.rewards.shape
        order = torch.rand(*shape, len(sigmas), generator=generator).argsort(-1)
        chosen = order[..., : self._num_levels(len(sigmas))]
        drawn = matching.pairs(rollout, sigmas[chosen], False, generator)
        optimality = (0.5 + rollout.of_own(credit.advantages[-1]) / (2 * self.advantage_clip)).to(x0.device)

        def evaluate(items: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            r = optimality.flatten()[items.to(x0.device) // chosen.shape[-1]]
            return self._evaluate(policy, rollout, matching.noised(rollout, drawn, items), r)

        # a sample that was not judged would be pulled back to the old weights: r = 1/2 is no gradient only there
        judged = (~rollout.rewards.isnan()).flatten().repeat_interleave(chosen.shape[-1]).nonzero().flatten()
        own = rollout.own(shape[1] * chosen.shape[-1])
        for part in matching.deal(len(judged), self.updates_per_rollout, generator):
            yield from matching.accumulate(judged.cpu()[part], self.micro_batch, evaluate, own)
        policy.track_old(old_decay(step + 1, self.old_decay))

    def training_cost(self, plan: Plan) -> Cost:
        each = self.group_size * self._num_levels(plan.num_steps)
        return Cost(each, each * (2 if self.kl_weight > 0 else 1), self.updates_per_rollout)

    def _evaluate(
        self, policy: Policy, rollout: Rollout, at: matching.Noised, r: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses [N] of latents of optimality r [N], and values for metrics."""
        v, v_old = (matching.velocity(policy, rollout, at, weights) for weights in ("current", "old"))
        measure = matching.adaptive if self.adaptive else matching.mean_square
        good, bad = (
            measure(matching.residual(mix, at.target, at.sigma, "x0")) for mix in branches(v, v_old, self.beta)
        )
        loss = (r * good + (1 - r) * bad) * self.advantage_clip / self.beta
        columns = {
            "train/error_positive": good.detach(),
            "train/error_negative": bad.detach(),
            "train/kl_old": matching.mean_square(v - v_old).detach(),
        }
        if self.kl_weight > 0:
            kl = matching.mean_square(v - matching.velocity(policy, rollout, at, "reference"))
            loss = loss + self.kl_weight * kl
            columns["train/kl_ref"] = kl.detach()
        return loss, columns

    def _num_levels(self, num_steps: int) -> int:
        number = int(num_steps * self.timestep_fraction)
        if number < 1:
            raise ValueError(
                f"timestep_fraction: {self.timestep_fraction} of {num_steps} levels trains none; raise it or the "
                "number of sampling steps"
            )
        return number

    def _advantages(self, rollout: Rollout) -> Tensor:
        return advantages.of(rollout, self.advantages, self.advantage_clip, unbiased=False)

    def _sampling_weights(self, step: int) -> Weights:
        return "old"


def branches(v: Tensor, v_old: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """v+ = (1 - beta) v_old + beta v and v- = (1 + beta) v_old - beta v (eq. 5)."""
    return (1 - beta) * v_old + beta * v, (1 + beta) * v_old - beta * v


def old_decay(steps: int, kind: Literal[0, 1, 2]) -> float:
    """Decay of the old weights after `steps` training steps (release, decay types)."""
    if kind == 0:
        return 0.0
    return min(0.001 * steps, 0.5) if kind == 1 else min(max(0.0, 0.0075 * (steps - 75)), 0.999)
