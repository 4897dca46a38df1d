"""The edges of a rollout that are trained, as columns, with the latents they join.

Shape legend
    E kept edges, M distinct parents of them, N nodes of all levels and prompts (flattened), D... latent dimensions;
    all of the process's own prompts. A parents of the prompts of all processes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend.types import Credit, Rollout


@dataclass(frozen=True)
class Edges:
    """nodes are the latents [N, D...]; all other fields but the last are columns [E].

    child and parent name rows of nodes, step and prompt say where an edge lies, advantage has the dtype of the nodes,
    logp is the rollout's. owner numbers the distinct parents.

    num_children [A] counts the edges of the parents of all processes, and held [A] is the number of each among the M
    of this process, -1 for those of others.
    """

    nodes: Tensor
    child: Tensor
    parent: Tensor
    step: Tensor
    prompt: Tensor
    advantage: Tensor
    logp: Tensor
    owner: Tensor
    num_children: Tensor
    held: Tensor

    @property
    def num_parents(self) -> int:
        return int((self.held >= 0).sum())


def kept(rollout: Rollout, credit: Credit) -> Edges:
    """The kept edges of all levels, on the latents' device. An edge without noise is left out, whatever keep says.

    Raises ValueError when the plan has no stochastic step.
    """
    plan, own = rollout.plan, rollout.own()
    if not (plan.rates > 0).any():
        raise ValueError("plan.rates: all steps are deterministic, so no edge has a density; give one a positive rate")
    nodes = torch.cat([state.flatten(0, 1) for state in rollout.states])
    columns: list[tuple[Tensor, ...]] = []
    above = 0
    for step, parents in enumerate(plan.parents):
        width, below = plan.widths[step], above + plan.widths[step]
        if plan.rates[step] > 0:
            prompt, node = (credit.keep[step].cpu() & plan.noisy(step)).nonzero(as_tuple=True)
            name = above * len(rollout.prompts) + prompt * width + parents[node]  # of the parent, on all processes
            prompt_here = prompt - own.start
            child = below * len(own) + prompt_here * len(parents) + node
            parent = above * len(own) + prompt_here * width + parents[node]
            advantage, logp = (of[step].cpu()[prompt, node] for of in (credit.advantages, rollout.logps))
            columns.append((name, child, parent, torch.full_like(node, step), prompt_here, advantage, logp))
        above = below
    name, *rest = (torch.cat(levels) for levels in zip(*columns, strict=True))
    mine = (rest[3] >= 0) & (rest[3] < len(own))
    _, numbers, num_children = name.unique(return_inverse=True, return_counts=True)
    present, owner = numbers[mine].unique(return_inverse=True)
    held = torch.full_like(num_children, -1)
    held[present] = torch.arange(len(present))
    child, parent, at, prompt, advantage, logp = (column[mine].to(nodes.device) for column in rest)
    owner, num_children, held = (one.to(nodes.device) for one in (owner, num_children, held))
    return Edges(nodes, child, parent, at, prompt, advantage.to(nodes.dtype), logp, owner, num_children, held)
