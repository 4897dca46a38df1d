"""The clipped policy-gradient loss over the kept edges of a rollout, with one forward for each parent.

Shape legend
    E kept edges, M parents with a kept child, N nodes of all levels and prompts (flattened), D... latent dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backend import flow
from backend.losses import clipped_ratio
from backend.types import Credit, Loss, Policy, Rollout

Forward = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Edges:
    """Kept edges as columns [E]: child and parent name rows of the flattened nodes, step and prompt where they lie."""

    child: Tensor
    parent: Tensor
    step: Tensor
    prompt: Tensor
    advantage: Tensor
    logp: Tensor


def losses(
    policy: Policy,
    rollout: Rollout,
    credit: Credit,
    *,
    clip: float,
    micro_batch: int,
    updates: int,
    replay: bool,
    generator: torch.Generator,
) -> Iterator[Loss]:
    """Yield the loss -(1/E) sum min(rho A, clamp(rho) A) in micro-batches of at most `micro_batch` parents.

    Siblings share the mean of one forward of their parent, and parents of all levels mix in a batch, each with its own
    sigma. The parents are shuffled by `generator` and cut into `updates` parts, each the mean over its own edges and
    ended by a Loss with update set, which carries the metrics of that part:

        train/loss, train/ratio_mean, train/clipfrac (share of |rho - 1| > clip), train/approx_kl (mean squared
        log-ratio / 2), and rollout_corr/logprob_abs_diff_mean (first part only).

    In the first part the weights are still those that sampled, so the ratio is 1 by definition: its old
    log-probabilities are the detached ones of the training forward itself. Those of the rollout can differ, because
    another batch shape may take another path through the kernels: by up to 6e-9 in float32 on a CPU, by more where
    16-bit kernels round differently. rollout_corr/logprob_abs_diff_mean measures that difference; a large one says
    that sampling and training disagree (dropout, precision, guidance). Later parts use the rollout's log-probabilities
    or, with `replay`, those of their own micro-batches, evaluated once more before the first update.
    """
    if rollout.plan.weights != "current":
        raise ValueError(f"plan.weights: the policy gradient needs samples of 'current', got {rollout.plan.weights!r}")
    nodes = torch.cat([state.flatten(0, 1) for state in rollout.states])
    edges = _kept(rollout, credit, nodes)
    parents, owner, num_children = edges.parent.unique(return_inverse=True, return_counts=True)
    shuffled = torch.randperm(len(parents), generator=generator).to(nodes.device)
    parts = [part.split(micro_batch) for part in shuffled.tensor_split(updates) if len(part)]

    def forward(batch: Tensor) -> tuple[Tensor, Tensor]:
        return _log_probs(policy, rollout, nodes, edges, owner, batch)

    old = edges.logp.clone()
    if replay:
        with torch.no_grad():
            for batch in (batch for batches in parts[1:] for batch in batches):
                rows, logp = forward(batch)
                old[rows] = logp
    for part, batches in enumerate(parts):
        num_edges = int(sum(num_children[batch].sum() for batch in batches))
        yield from _update(forward, batches, edges, None if part == 0 else old, num_edges, clip)


def _update(
    forward: Forward, batches: Sequence[Tensor], edges: Edges, old: Tensor | None, num_edges: int, clip: float
) -> Iterator[Loss]:
    """The losses of one optimizer step. old [E] is None while the weights are those that sampled."""
    seen: list[Tensor] = []
    for number, batch in enumerate(batches, start=1):
        rows, logp = forward(batch)
        log_ratio = logp - (logp.detach() if old is None else old[rows])
        loss = clipped_ratio(log_ratio, edges.advantage[rows], clip)
        seen.append(torch.stack([loss, log_ratio, logp - edges.logp[rows]]).detach())
        last = number == len(batches)
        metrics = _metrics(torch.cat(seen, 1), clip, on_policy=old is None) if last else {}
        yield Loss(loss.sum() / num_edges, metrics, update=last)


def _log_probs(
    policy: Policy, rollout: Rollout, nodes: Tensor, edges: Edges, owner: Tensor, batch: Tensor
) -> tuple[Tensor, Tensor]:
    """One forward of the parents in `batch` [M]: the rows of the edges below them, and their log-probabilities."""
    position = owner.new_full((int(owner.max()) + 1,), -1)
    position[batch] = torch.arange(len(batch), device=owner.device)
    rows = (position[owner] >= 0).nonzero().flatten()
    place = position[owner[rows]]
    first = place.new_empty(len(batch))
    first[place] = rows  # any edge will do: all edges of a parent agree on parent, step and prompt
    plan, x, step = rollout.plan, nodes[edges.parent[first]], edges.step[first]
    sigma, sigma_next, rate = (level.to(x.device)[step] for level in (plan.sigmas[:-1], plan.sigmas[1:], plan.rates))
    v = policy.velocity(x, sigma.to(x), rollout.cond.take(edges.prompt[first]))
    mean, std = flow.mean_std(x, v, sigma, sigma_next, rate, plan.noise)
    return rows, flow.log_prob(nodes[edges.child[rows]], mean[place], std[place])


def _kept(rollout: Rollout, credit: Credit, nodes: Tensor) -> Edges:
    """The kept edges of all levels, on the nodes' device. A step without noise is left out, whatever keep says."""
    if not (rollout.plan.rates > 0).any():
        raise ValueError("plan.rates: all steps are deterministic, so no edge has a density; give one a positive rate")
    columns: list[Edges] = []
    offset, num_prompts = 0, len(rollout.prompts)
    for step, parents in enumerate(rollout.plan.parents):
        width, num_children = rollout.plan.widths[step], len(parents)
        below = offset + num_prompts * width
        if rollout.plan.rates[step] > 0:
            prompt, node = (credit.keep[step].cpu() & rollout.plan.noisy(step)).nonzero(as_tuple=True)
            columns.append(
                Edges(
                    child=below + prompt * num_children + node,
                    parent=offset + prompt * width + parents[node],
                    step=torch.full_like(node, step),
                    prompt=prompt,
                    advantage=credit.advantages[step].cpu()[prompt, node],
                    logp=rollout.logps[step].cpu()[prompt, node],
                )
            )
        offset = below
    fields = Edges.__dataclass_fields__
    table = Edges(*(torch.cat([getattr(level, name) for level in columns]).to(nodes.device) for name in fields))
    return replace(table, advantage=table.advantage.to(nodes.dtype))


def _metrics(seen: Tensor, clip: float, on_policy: bool) -> dict[str, float]:
    """seen [3, E]: loss, log-ratio, and log-probability less that of the rollout."""
    loss, log_ratio, gap = seen.double()
    ratio = log_ratio.exp()
    metrics = {
        "train/loss": float(loss.mean()),
        "train/ratio_mean": float(ratio.mean()),
        "train/clipfrac": float(((ratio - 1).abs() > clip).double().mean()),
        "train/approx_kl": float((log_ratio**2).mean() / 2),
    }
    return {**metrics, "rollout_corr/logprob_abs_diff_mean": float(gap.abs().mean())} if on_policy else metrics
