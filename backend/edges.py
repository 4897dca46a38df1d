"""The edges of a rollout that are trained, as columns, with the latents they join.

Shape legend
    E kept edges, M distinct parents of them, N nodes of all levels and prompts (flattened), D... latent dimensions.
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
    logp is the rollout's. owner numbers the distinct parents, and num_children [M] counts the edges of each.
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

    @property
    def num_parents(self) -> int:
        return len(self.num_children)


def kept(rollout: Rollout, credit: Credit) -> Edges:
    """The kept edges of all levels, on the latents' device. An edge without noise is left out, whatever keep says.

    Raises ValueError when the plan has no stochastic step.
    """
    plan, num_prompts = rollout.plan, len(rollout.prompts)
    if not (plan.rates > 0).any():
        raise ValueError("plan.rates: all steps are deterministic, so no edge has a density; give one a positive rate")
    nodes = torch.cat([state.flatten(0, 1) for state in rollout.states])
    columns: list[tuple[Tensor, ...]] = []
    offset = 0
    for step, parents in enumerate(plan.parents):
        width, num_children = plan.widths[step], len(parents)
        below = offset + num_prompts * width
        if plan.rates[step] > 0:
            prompt, node = (credit.keep[step].cpu() & plan.noisy(step)).nonzero(as_tuple=True)
            child, parent = below + prompt * num_children + node, offset + prompt * width + parents[node]
            advantage, logp = (of[step].cpu()[prompt, node] for of in (credit.advantages, rollout.logps))
            columns.append((child, parent, torch.full_like(node, step), prompt, advantage, logp))
        offset = below
    child, parent, at, prompt, advantage, logp = (
        torch.cat(levels).to(nodes.device) for levels in zip(*columns, strict=True)
    )
    _, owner, num_children_of = parent.unique(return_inverse=True, return_counts=True)
    return Edges(nodes, child, parent, at, prompt, advantage.to(nodes.dtype), logp, owner, num_children_of)
