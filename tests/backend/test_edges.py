"""Kept edges as columns: which rows they join, and which are left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from backend import flow, tree
from backend.edges import kept
from backend.types import Credit, Plan, Rollout
from tests.backend.toy import Perceptron, sampled

PROMPTS = ("a", "bcdef")


@pytest.fixture
def rollout() -> Rollout:
    """Two prompts; one root splits in two, goes on by the ODE, and splits again but for its first node."""
    parents = (torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([0, 1, 1]))
    still = (torch.zeros(2).bool(), torch.zeros(2).bool(), torch.tensor([True, False, False]))
    rates = torch.tensor([0.5, 0.0, 0.5]).double()
    return sampled(Perceptron(), Plan(flow.grid(3), parents, rates, still=still), PROMPTS)


def credit(rollout: Rollout) -> Credit:
    """All edges; the advantage of an edge is 100 step + 10 prompt + child."""
    shapes = [logp.shape for logp in rollout.logps]
    advantages = tuple(
        100.0 * step + 10 * torch.arange(shape[0])[:, None] + torch.arange(shape[1])
        for step, shape in enumerate(shapes)
    )
    keep = tuple(torch.ones(shape, dtype=torch.bool) for shape in shapes)
    return Credit(advantages, keep, tree.fuse(rollout.plan.parents, rollout.rewards, rollout.logps, 0.0))


def test_columns_name_the_rows_of_the_flattened_nodes(rollout: Rollout) -> None:
    edges = kept(rollout, credit(rollout))
    # levels of 1, 2, 2 and 3 nodes for 2 prompts: rows 0-1, 2-5, 6-9, 10-15
    assert len(edges.nodes) == 16
    assert edges.child.tolist() == [2, 3, 4, 5, 11, 12, 14, 15]
    assert edges.parent.tolist() == [0, 0, 1, 1, 7, 7, 9, 9]
    assert edges.step.tolist() == [0, 0, 0, 0, 2, 2, 2, 2]
    assert edges.prompt.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert edges.advantage.tolist() == [0, 1, 10, 11, 201, 202, 211, 212]
    assert edges.owner.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert edges.num_children.tolist() == [2, 2, 2, 2]
    assert edges.num_parents == 4
    assert not edges.logp.isnan().any()
    assert torch.equal(edges.nodes[edges.child[4]], rollout.states[3][0, 1])
    assert torch.equal(edges.nodes[edges.parent[6]], rollout.states[2][1, 1])


def test_only_kept_edges_have_a_row(rollout: Rollout) -> None:
    whole = credit(rollout)
    keep = (torch.tensor([[True, False], [False, False]]), whole.keep[1], torch.zeros_like(whole.keep[2]))
    edges = kept(rollout, replace(whole, keep=keep))
    assert edges.child.tolist() == [2]
    assert edges.num_children.tolist() == [1]
    nothing = kept(rollout, replace(whole, keep=tuple(torch.zeros_like(level) for level in keep)))
    assert nothing.num_parents == 0


def test_a_plan_without_noise_is_refused(rollout: Rollout) -> None:
    ode = Plan(flow.grid(3), (torch.arange(3),) * 3, torch.zeros(3))
    with pytest.raises(ValueError, match="all steps are deterministic"):
        kept(replace(rollout, plan=ode), credit(rollout))
