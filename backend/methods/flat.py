"""Credit of a group whose samples are compared as wholes: one advantage a sample, on each of its trained steps."""

from __future__ import annotations

import torch
from torch import Tensor

from backend import tree
from backend.types import Credit, Rollout


def chains(group_size: int, num_steps: int) -> tuple[Tensor, ...]:
    """parents of `group_size` samples that share no step."""
    return (torch.arange(group_size),) * num_steps


def window(num_steps: int, start: int, width: int) -> Tensor:
    """Bool [T]: whether a step lies in the window start .. start + width - 1."""
    steps = torch.arange(num_steps)
    return (steps >= start) & (steps < start + width)


def credit(rollout: Rollout, advantages: Tensor) -> Credit:
    """Advantages [P, G] of the leaves, on all edges that can be trained.

    An edge that several leaves share, before a group splits, has their mean advantage; a value is their mean reward.
    """
    plan, rewards = rollout.plan, rollout.rewards
    assert rewards is not None
    values = tree.fuse(plan.parents, rewards, rollout.logps, beta=0)
    edges = tree.fuse(plan.parents, advantages, rollout.logps, beta=0)[1:]
    keep = tuple(able.to(advantages.device) for able in tree.trainable(plan, len(advantages)))
    return Credit(edges, keep, values)
