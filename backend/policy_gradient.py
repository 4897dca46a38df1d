"""The clipped policy-gradient loss over the kept edges of a rollout, with one forward for each parent.

Shape legend
    E kept edges, M parents in a micro-batch, N nodes of all levels and prompts (flattened), T steps, D... latent
    dimensions. Edges, parents and nodes are those of the process's own prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from backend import flow, tree
from backend.edges import Edges, kept
from backend.losses import clipped_ratio, gaussian_kl, guarded_log_ratio
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout

Surrogate = Callable[[Tensor, Tensor, float], Tensor]
Ratio = Literal["gaussian", "unscaled", "guarded"]
KLForm = Literal["gaussian", "released"]


@dataclass(frozen=True)
class Objective:
    """The loss of one edge: weight_i surrogate(log rho, A, clip) + kl_weight KL(current | reference).

    clip       the surrogate's clip range
    surrogate  losses.clipped_ratio (PPO) or losses.clamped_ratio (DPOK)
    ratio      "gaussian": log rho = log p - log p_old of the step's Gaussian, averaged over latent dimensions;
               "unscaled": that of -mean (x' - mu)^2, which is 2 s^2 times as large (FlowCPS);
               "guarded": GRPO-Guard's, see losses.guarded_log_ratio
    weights    [T], what the surrogate of each step is multiplied by; None is 1
    kl_weight  of the step's Gaussian KL to the reference weights; above 0 it costs one more forward a parent
    kl_form    "gaussian": mean (mu - mu_ref)^2 / (2 s^2); "released": with g instead of s = g sqrt(D) for an SDE step,
               which is D times as large (released Flow-GRPO; its CPS step has s, so both are equal there)
    replay     old log-probabilities are evaluated once more before the first of several updates; "guarded" always does
    """

    clip: float
    surrogate: Surrogate = clipped_ratio
    ratio: Ratio = "gaussian"
    weights: Tensor | None = None
    kl_weight: float = 0.0
    kl_form: KLForm = "gaussian"
    replay: bool = False


@dataclass(frozen=True)
class Transitions:
    """One forward of M parents, numbered by `parents` [M], and the edges below them.

    mean [M, D...] and std [M] of the parents' steps; kl [M] in the objective's form, 0 without a weight;
    rows [E'] of the edges, place [E'] their parents' positions in the batch, child [E', D...], logp [E']
    """

    parents: Tensor
    mean: Tensor
    std: Tensor
    kl: Tensor
    rows: Tensor
    place: Tensor
    child: Tensor
    logp: Tensor


@dataclass(frozen=True)
class Old:
    """What the weights that sampled say: logp [E] of all edges; mean [parents, D...], which only "guarded" needs."""

    logp: Tensor
    mean: Tensor | None


Forward = Callable[[Tensor, bool], Transitions]


def losses(
    policy: Policy,
    rollout: Rollout,
    credit: Credit,
    objective: Objective,
    *,
    micro_batch: int,
    updates: int,
    generator: torch.Generator,
) -> Iterator[Loss]:
    """Yield the mean of the objective over the kept edges, in micro-batches of at most `micro_batch` parents.

    Siblings share the mean of one forward of their parent, and parents of all levels mix in a batch, each with its own
    sigma. The parents of all processes are shuffled by `generator` and cut into `updates` parts, each the mean over
    its own edges and ended by a Loss with update set, which carries the metrics of that part:

        train/loss, train/ratio_mean, train/clipfrac (share of |rho - 1| > clip), train/approx_kl (mean squared
        log-ratio / 2), train/kl_ref (mean over edges, in the objective's form, with a kl_weight), and
        rollout_corr/logprob_abs_diff_mean (first part only).

    In the first part the weights are still those that sampled, so the ratio is 1 by definition: its old
    log-probabilities are the detached ones of the training forward itself. Those of the rollout can differ, because
    another batch shape may take another path through the kernels: by up to 6e-9 in float32 on a CPU, by more where
    16-bit kernels round differently. rollout_corr/logprob_abs_diff_mean measures that difference; a large one says
    that sampling and training disagree (dropout, precision, guidance). Later parts use the rollout's log-probabilities
    or, where the objective replays, those of their own micro-batches, evaluated once more before the first update.
    """
    if rollout.plan.weights != "current":
        raise ValueError(f"plan.weights: the policy gradient needs samples of 'current', got {rollout.plan.weights!r}")
    edges = kept(rollout, credit)
    shuffled = torch.randperm(len(edges.held), generator=generator).to(edges.nodes.device)
    parts = [part for part in shuffled.tensor_split(updates) if len(part)]
    mine = [edges.held[part][edges.held[part] >= 0].split(micro_batch) for part in parts]

    def forward(batch: Tensor, with_kl: bool) -> Transitions:
        return _transitions(policy, rollout, objective.kl_form if with_kl else None, edges, batch)

    later = [batch for batches in mine[1:] for batch in batches if len(batch)]
    old = _old(forward, later, edges, objective)
    for number, (part, batches) in enumerate(zip(parts, mine, strict=True)):
        if not len(batches[0]):
            yield Loss(edges.nodes.new_zeros(()), {}, update=True, count=0)
            continue
        num_edges = int(edges.num_children[part].sum())
        yield from _update(forward, batches, edges, None if number == 0 else old, num_edges, objective)


def cost(plan: Plan, objective: Objective, updates: int) -> Cost:
    """Forwards of training on one prompt's group, all of whose trainable edges are kept; updates share them evenly."""
    able = [level[0] for level in tree.trainable(plan, 1)]
    trained = sum(len(parents[level].unique()) for parents, level in zip(plan.parents, able, strict=True))
    compared = trained if objective.kl_weight > 0 else 0
    replayed = trained - math.ceil(trained / updates) if objective.replay or objective.ratio == "guarded" else 0
    return Cost(trained, compared + replayed, updates)


def _old(forward: Forward, batches: Sequence[Tensor], edges: Edges, objective: Objective) -> Old:
    """What the parts after the first compare with: the rollout's log-probabilities, or those of their own batches."""
    guarded, logp, mean = objective.ratio == "guarded", edges.logp.clone(), None
    if guarded or objective.replay:
        with torch.no_grad():
            for batch in batches:
                at = forward(batch, False)
                logp[at.rows] = at.logp
                if guarded:
                    mean = at.mean.new_empty(edges.num_parents, *at.mean.shape[1:]) if mean is None else mean
                    mean[at.parents] = at.mean
    return Old(logp, mean)


def _update(
    forward: Forward, batches: Sequence[Tensor], edges: Edges, old: Old | None, num_edges: int, objective: Objective
) -> Iterator[Loss]:
    """The losses of one optimizer step. old is None while the weights are those that sampled."""
    seen: list[Tensor] = []
    for number, batch in enumerate(batches, start=1):
        at = forward(batch, objective.kl_weight > 0)
        log_ratio = _log_ratio(objective.ratio, at, old)
        loss = objective.surrogate(log_ratio, edges.advantage[at.rows], objective.clip)
        if objective.weights is not None:
            loss = objective.weights.to(loss)[edges.step[at.rows]] * loss
        kl = at.kl[at.place]
        loss = loss + objective.kl_weight * kl
        seen.append(torch.stack([loss, log_ratio, at.logp - edges.logp[at.rows], kl]).detach())
        last = number == len(batches)
        metrics = _metrics(torch.cat(seen, 1), objective, on_policy=old is None) if last else {}
        yield Loss(loss.sum() / num_edges, metrics, update=last, count=sum(one.shape[1] for one in seen))


def _log_ratio(ratio: Ratio, at: Transitions, old: Old | None) -> Tensor:
    """log rho [E'] of the edges below a batch; exactly 0 where old is None, but with its gradient."""
    std = at.std[at.place]
    if ratio == "guarded":
        assert old is None or old.mean is not None
        before = at.mean.detach() if old is None or old.mean is None else old.mean[at.parents]
        return guarded_log_ratio(at.child, at.mean[at.place], before[at.place], std)
    log_ratio = at.logp - (at.logp.detach() if old is None else old.logp[at.rows])
    return 2 * std**2 * log_ratio if ratio == "unscaled" else log_ratio


def _transitions(policy: Policy, rollout: Rollout, kl_form: KLForm | None, edges: Edges, batch: Tensor) -> Transitions:
    """One forward of the parents in `batch` [M], and with a kl_form one of the reference."""
    position = batch.new_full((edges.num_parents,), -1)
    position[batch] = torch.arange(len(batch), device=batch.device)
    rows = (position[edges.owner] >= 0).nonzero().flatten()
    place = position[edges.owner[rows]]
    first = place.new_empty(len(batch))
    first[place] = rows  # any edge will do: all edges of a parent agree on parent, step and prompt
    plan, x, step = rollout.plan, edges.nodes[edges.parent[first]], edges.step[first]
    sigma, sigma_next, rate = (level.to(x.device)[step] for level in (plan.sigmas[:-1], plan.sigmas[1:], plan.rates))
    cond = rollout.cond.take(edges.prompt[first])
    v = policy.velocity(x, sigma.to(x), cond)
    mean, std = flow.mean_std(x, v, sigma, sigma_next, rate, plan.noise)
    kl = torch.zeros_like(std)
    if kl_form is not None:
        with torch.no_grad():
            v = policy.velocity(x, sigma.to(x), cond, weights="reference")
            anchor, _ = flow.mean_std(x, v, sigma, sigma_next, rate, plan.noise)
        kl = gaussian_kl(mean, anchor, std)
        if kl_form == "released" and plan.noise == "sde":
            kl = kl * (sigma - sigma_next).to(kl)
    child = edges.nodes[edges.child[rows]]
    return Transitions(batch, mean, std, kl, rows, place, child, flow.log_prob(child, mean[place], std[place]))


def _metrics(seen: Tensor, objective: Objective, on_policy: bool) -> dict[str, float]:
    """seen [4, E]: loss, log-ratio, log-probability less that of the rollout, and KL to the reference."""
    loss, log_ratio, gap, kl = seen.double()
    ratio = log_ratio.exp()
    metrics = {
        "train/loss": float(loss.mean()),
        "train/ratio_mean": float(ratio.mean()),
        "train/clipfrac": float(((ratio - 1).abs() > objective.clip).double().mean()),
        "train/approx_kl": float((log_ratio**2).mean() / 2),
    }
    if objective.kl_weight > 0:
        metrics["train/kl_ref"] = float(kl.mean())
    return {**metrics, "rollout_corr/logprob_abs_diff_mean": float(gap.abs().mean())} if on_policy else metrics
