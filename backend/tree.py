"""Credit for a tree of rollouts: fuse leaf rewards upwards, normalise at each depth, choose the edges to train.

Shape legend
    P prompts (one tree each), T steps, W_t nodes at level t, G = W_T leaves.
    parents  T tensors Long[W_{t+1}]: the level-t parent of each node of level t+1; the same tree for all prompts
    values   T+1 tensors [P, W_t];  an edge is named by its child: T tensors [P, W_{t+1}]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from backend.advantages import standardise
from backend.types import Plan


def splits(num_steps: int, split_steps: Sequence[int], branches: int) -> tuple[Tensor, ...]:
    """parents of a tree with one root, in which every node splits into `branches` children at each split step."""
    width, parents = 1, []
    for step in range(num_steps):
        children = torch.arange(width).repeat_interleave(branches if step in split_steps else 1)
        parents.append(children)
        width = len(children)
    return tuple(parents)


def fuse(
    parents: Sequence[Tensor],
    rewards: Tensor,
    logps: Sequence[Tensor],
    beta: float,
    reduction: Literal["mean", "sum"] = "mean",
    latent_dims: int = 1,
) -> tuple[Tensor, ...]:
    """Values of all nodes, T+1 x float64 [P, W_t], from leaf rewards [P, G] (BranchGRPO, eq. 3).

    V(n) = sum over leaves l below n of w_l r_l, with w = softmax(beta log p(l | n)) over those leaves and log p(l | n)
    the sum of edge log-probabilities on the path. beta = 0 is the mean of the leaves. Each node carries, besides its
    value, the log-sum-exp of the paths below it: a softmax over a node's children alone would be another estimator.

    logps are T x [P, W_{t+1}], averaged over latent dimensions; reduction "sum" multiplies them by latent_dims. A
    deterministic step (all NaN) has no density and adds nothing to a path. A leaf with a reward of NaN could not be
    judged: it counts nowhere, and a node without other leaves has the value NaN.
    """
    scale = beta * (latent_dims if reduction == "sum" else 1)
    values = [rewards.double()]
    value = values[0].nan_to_num(0.0)
    mass = torch.zeros_like(value).masked_fill(rewards.isnan(), -torch.inf)
    for step in reversed(range(len(parents))):
        logp = logps[step].to(mass)
        weight = mass if scale == 0 or logp.isnan().all() else mass + scale * logp
        index = parents[step].to(value.device).expand_as(weight)
        empty = weight.new_full((len(value), int(parents[step].max()) + 1), -torch.inf)
        peak = empty.scatter_reduce(1, index, weight, "amax")
        peak = peak.masked_fill(peak == -torch.inf, 0.0)
        share = torch.exp(weight - peak.gather(1, index))
        total = torch.zeros_like(peak).scatter_add(1, index, share)
        known = torch.zeros_like(peak).scatter_add(1, index, share * value) / total
        mass = peak + total.log()
        values.append(known)
        value = known.masked_fill(total == 0, 0.0)
    return tuple(reversed(values))


def depth_advantages(
    values: Sequence[Tensor], clip: float, unbiased: bool = True, eps: float = 1e-8, floor: float = 1e-6
) -> tuple[Tensor, ...]:
    """Advantage of each edge, T x float64 [P, W_{t+1}]: its child's value, standardised (BranchGRPO, eq. 4).

    Mean and std are those of the nodes of one depth of one tree. A depth of one node, or with a std below `floor`
    (equal rewards up to rounding), has nothing to compare and gets 0. Clipped to [-clip, clip].
    """
    return tuple(standardise(value.double(), unbiased, eps, floor).clamp(-clip, clip) for value in values[1:])


def trainable(plan: Plan, num_prompts: int) -> tuple[Tensor, ...]:
    """Edges that can carry gradient, T x bool [P, W_{t+1}]: those with a density and with a sibling or cousin."""
    return tuple(
        (plan.noisy(step) & (len(parents) > 1)).expand(num_prompts, -1) for step, parents in enumerate(plan.parents)
    )


def parent_top1(parents: Sequence[Tensor], values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Width pruning: below the last split, only the chain of each parent's better child (the first, when equal).

    A child that could not be judged (NaN) is worse than any other.
    The edges of the last split itself are all kept, which gives the 138 edges of the paper's 8.625 a leaf.
    """
    split = _last_split(parents)
    if split is None:
        return _keep_all(parents, values)
    value = values[split + 1].nan_to_num(-torch.inf)
    index = parents[split].to(value.device).expand_as(value)
    best = torch.full_like(values[split], -torch.inf).scatter_reduce(1, index, value, "amax")
    order = torch.arange(value.shape[1], device=value.device).expand_as(value)
    candidates = torch.where(value == best.gather(1, index), order, value.shape[1])
    first = torch.full_like(values[split], value.shape[1], dtype=torch.long)
    first = first.scatter_reduce(1, index, candidates, "amin")
    return _keep_chains(parents, values, split, first.gather(1, index) == order)


def extreme(parents: Sequence[Tensor], values: Sequence[Tensor], count: int) -> tuple[Tensor, ...]:
    """Width pruning: below the last split, only the chains of the `count` best and the `count` worst leaves.

    Those that could not be judged (NaN) rank in the middle, where they are pruned first.
    """
    split = _last_split(parents)
    if split is None:
        return _keep_all(parents, values)
    value = values[split + 1]
    value = torch.where(value.isnan(), value.nanmean(1, keepdim=True), value)
    rank = value.argsort(dim=1, stable=True).argsort(dim=1)
    return _keep_chains(parents, values, split, (rank < count) | (rank >= rank.shape[1] - count))


def window_start(start: int, stride: int, every: int, stop: int, step: int) -> int:
    """Where a window stands at a training step: moved by `stride` (signed) every `every` steps, never past `stop`."""
    moved = start + stride * (step // every)
    return min(moved, max(start, stop)) if stride >= 0 else max(moved, min(start, stop))


def outside_window(values: Sequence[Tensor], first: int, width: int) -> tuple[Tensor, ...]:
    """Depth pruning: all edges but those into depths first .. first + width - 1 (a child of step i has depth i + 1)."""
    return tuple(
        torch.full_like(value, not first <= depth < first + width, dtype=torch.bool)
        for depth, value in enumerate(values[1:], start=1)
    )


def _last_split(parents: Sequence[Tensor]) -> int | None:
    split = [step for step, level in enumerate(parents) if len(level.unique()) < len(level)]
    return split[-1] if split else None


def _keep_all(parents: Sequence[Tensor], values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(torch.ones_like(value, dtype=torch.bool) for value in values[1:])


def _keep_chains(parents: Sequence[Tensor], values: Sequence[Tensor], split: int, chosen: Tensor) -> tuple[Tensor, ...]:
    """All edges down to and including step `split`, then the descendants of the chosen [P, W_{split+1}]."""
    keep = list(_keep_all(parents, values)[: split + 1])
    for level in parents[split + 1 :]:
        chosen = chosen[:, level.to(chosen.device)]
        keep.append(chosen)
    return tuple(keep)
