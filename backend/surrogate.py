"""The clipped ratio of a surrogate likelihood: minus the denoising error, at pairs that both policies share.

Shape legend
    P prompts, Q of them this process's own, G samples of each, M samples of one batch, J pairs of each, D... latent
    dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from backend import matching
from backend.losses import clipped_ratio
from backend.matching import Noised, Pairs, Prediction
from backend.types import Loss, Policy, Rollout

Error = Callable[[Tensor, Noised], Tensor]


@dataclass(frozen=True)
class Objective:
    """How errors become a loss.

    error       velocity [N, D...] and where it was taken -> errors [N] with gradient
    clip        PPO's clip range of the ratio; None leaves it free
    per_pair    a ratio for each pair; otherwise one for each sample, whose pairs are averaged inside the exponential
    kl_old      weight of the squared distance to the behaviour policy's prediction (V-GRPO, eq. 16)
    kl_ref      weight of the squared distance to the base model's velocity
    prediction  the space of kl_old
    """

    error: Error
    clip: float | None = None
    per_pair: bool = False
    kl_old: float = 0.0
    kl_ref: float = 0.0
    prediction: Prediction = "v"


@dataclass(frozen=True)
class Before:
    """What the policy that sampled found: errors [Q G, J], and its velocities [Q G, J, D...] where kl_old is used."""

    error: Tensor
    v: Tensor | None


def losses(
    policy: Policy,
    rollout: Rollout,
    advantages: Tensor,
    pairs: Pairs,
    objective: Objective,
    *,
    micro_batch: int,
    updates: int,
    generator: torch.Generator,
) -> Iterator[Loss]:
    """Yield -min(rho A, clip(rho) A) with rho = exp(L_old - L), averaged over samples.

    advantages [P, G]. The samples of all processes are shuffled by `generator` and dealt to `updates` optimizer steps.
    In the first the weights are still those that sampled, so its ratio is 1 by definition, and its old errors are the
    detached ones of the training forward itself; those of later updates are evaluated once more before the first.
    """
    num_samples, num_pairs = advantages.numel(), pairs.sigma.shape[-1]
    per_batch = matching.units_per_batch(micro_batch, num_pairs)
    first, *later = matching.deal(num_samples, updates, generator)
    own = rollout.own(advantages.shape[1])
    signal = rollout.of_own(advantages).flatten().to(pairs.sigma.device)

    def items(samples: Tensor) -> Tensor:
        return (samples[:, None] * num_pairs + torch.arange(num_pairs)).flatten()

    batches = [batch for part in later for batch in matching.mine(part, own).split(per_batch) if len(batch)]
    before = _evaluate_before(policy, rollout, pairs, objective, batches, items)
    for part in (first, *later):
        known = None if part is first else before

        def evaluate(samples: Tensor, known: Before | None = known) -> tuple[Tensor, dict[str, Tensor]]:
            at = matching.noised(rollout, pairs, items(samples))
            return _evaluate(policy, rollout, at, objective, samples, signal, known)

        yield from matching.accumulate(part, per_batch, evaluate, own)


def _evaluate(
    policy: Policy,
    rollout: Rollout,
    at: Noised,
    objective: Objective,
    samples: Tensor,
    signal: Tensor,
    before: Before | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses [M] of samples Long[M], and values for metrics."""
    num_samples = len(samples)
    v = matching.velocity(policy, rollout, at)
    error = objective.error(v, at).view(num_samples, -1)
    log_ratio = (error.detach() if before is None else before.error[samples]) - error
    if not objective.per_pair:
        log_ratio = log_ratio.mean(1, keepdim=True)
    advantage = signal[samples.to(signal.device)][:, None].expand_as(log_ratio)
    if objective.clip is None:
        loss = -log_ratio.exp() * advantage
    else:
        loss = clipped_ratio(log_ratio, advantage, objective.clip)
    loss, ratio = loss.mean(1), log_ratio.detach().exp()
    columns = {
        "train/error": error.detach(),
        "train/ratio_mean": ratio,
        "train/approx_kl": log_ratio.detach() ** 2 / 2,
    }
    if objective.clip is not None:
        columns["train/clipfrac"] = (ratio - 1).abs() > objective.clip
    if objective.kl_old > 0 and before is not None and before.v is not None:
        gap = matching.residual(v, before.v[samples].flatten(0, 1), at.sigma, objective.prediction)
        kl = matching.mean_square(gap).view(num_samples, -1).mean(1)
        loss = loss + objective.kl_old * kl
        columns["train/kl_old"] = kl.detach()
    if objective.kl_ref > 0:
        v_ref = matching.velocity(policy, rollout, at, "reference")
        kl = matching.mean_square(v - v_ref).view(num_samples, -1).mean(1)
        loss = loss + objective.kl_ref * kl
        columns["train/kl_ref"] = kl.detach()
    return loss, columns


@torch.no_grad()
def _evaluate_before(
    policy: Policy,
    rollout: Rollout,
    pairs: Pairs,
    objective: Objective,
    batches: list[Tensor],
    items: Callable[[Tensor], Tensor],
) -> Before:
    """The errors and velocities of the later updates' samples, in the batches that will train on them."""
    num_samples, num_pairs = pairs.sigma[..., 0].numel(), pairs.sigma.shape[-1]
    error = pairs.sigma.new_zeros(num_samples, num_pairs)
    v_before: Tensor | None = None
    for samples in batches:
        at = matching.noised(rollout, pairs, items(samples))
        v = matching.velocity(policy, rollout, at)
        error[samples] = objective.error(v, at).view(len(samples), -1)
        if objective.kl_old > 0:
            v_before = v.new_zeros(num_samples, num_pairs, *v.shape[1:]) if v_before is None else v_before
            v_before[samples] = v.view(len(samples), num_pairs, *v.shape[1:])
    return Before(error, v_before)
