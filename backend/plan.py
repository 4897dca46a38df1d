"""What a run will cost, worked out before it starts: `espalier plan CONFIG`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from backend import groups
from backend.config import RunConfig, load
from backend.types import Cost, Plan, Rollout

BYTES = 4


@dataclass(frozen=True)
class Level:
    """One denoising step of one prompt's tree: nodes are evaluated, children made, rate is that of the noise."""

    step: int
    sigma: float
    sigma_next: float
    nodes: int
    children: int
    rate: float
    trained_edges: int


@dataclass(frozen=True)
class PlanReport:
    """Costs of one training step at the start of a run; bytes where a name says so.

    Forwards are those of one prompt, without the doubling of guidance (but for forwards_per_step): in the rollout, in
    training with gradient, and in training without (weights to compare with). nfe_old and nfe_theta are what papers
    give a sample: evaluations without and with gradient.
    """

    method: str
    num_steps: int
    num_leaves: int
    forwards_per_prompt: int
    forwards_if_independent: int
    edges: int
    trained_edges: int
    training_forwards: int
    evaluated_forwards: int
    nfe_old: float
    nfe_theta: float
    prompts_per_step: int
    samples_per_step: int
    forwards_per_step: int
    optimizer_steps: int
    total_steps: int
    total_samples: int
    latent_bytes_per_step: int
    levels: list[Level]


class _Latents:
    """Conditioning of a rollout that is only counted, never evaluated."""

    def take(self, rows: torch.Tensor) -> _Latents:
        return self


def count(plan: Plan, config: RunConfig) -> tuple[list[int], int]:
    """Trained edges of each step, and distinct parents among them, of one prompt with unequal rewards."""
    widths = plan.widths
    states = tuple(torch.zeros(1, width, 1) for width in widths)
    logps = tuple(torch.zeros(1, width) for width in widths[1:])
    rewards = torch.linspace(0, 1, widths[-1], dtype=torch.float64)[None]
    rollout = Rollout(plan, ("",), _Latents(), states, logps, rewards, {"any": rewards}, {"any": 1.0})
    keep = [level[0] & plan.noisy(i) for i, level in enumerate(config.method.credit(rollout, 0).keep)]
    parents = sum(len(plan.parents[i][level].unique()) for i, level in enumerate(keep))
    return [int(level.sum()) for level in keep], parents


def describe(config: RunConfig) -> PlanReport:
    """The costs of a config's training step, counted on the plan itself."""
    plan = config.method.plan(0, config.grid())
    sampled = config.groups is None
    if not sampled:
        plan = groups.plan(plan.sigmas, plan.num_leaves)
    widths = plan.widths
    forwards = plan.forwards_per_prompt if sampled else 0
    stored = sum(widths if plan.keep == "all" else widths[-1:])
    trained, parents = count(plan, config)
    cost = config.method.training_cost(plan) or Cost(parents, 0, getattr(config.method, "updates_per_rollout", 1))
    num_prompts = config.prompts.per_step
    levels = [
        Level(
            i,
            float(plan.sigmas[i]),
            float(plan.sigmas[i + 1]),
            widths[i],
            widths[i + 1],
            float(plan.rates[i]),
            trained[i],
        )
        for i in range(plan.num_steps)
    ]
    return PlanReport(
        method=config.method.name,
        num_steps=plan.num_steps,
        num_leaves=plan.num_leaves,
        forwards_per_prompt=forwards,
        forwards_if_independent=plan.num_steps * plan.num_leaves if sampled else 0,
        edges=sum(widths[1:]),
        trained_edges=sum(trained),
        training_forwards=cost.trained,
        evaluated_forwards=cost.evaluated,
        nfe_old=(forwards + cost.evaluated) / plan.num_leaves,
        nfe_theta=cost.trained / plan.num_leaves,
        prompts_per_step=num_prompts,
        samples_per_step=num_prompts * plan.num_leaves,
        forwards_per_step=config.model.passes() * num_prompts * forwards,
        optimizer_steps=cost.updates,
        total_steps=config.steps,
        total_samples=config.steps * num_prompts * plan.num_leaves,
        latent_bytes_per_step=BYTES * num_prompts * stored * math.prod(config.model.latent_shape()),
        levels=levels,
    )


def words(report: PlanReport) -> str:
    """The report as a table."""
    rows = ["step  sigma          nodes  children  noise   trained edges"]
    rows += [
        f"{one.step:>4}  {one.sigma:.3f} -> {one.sigma_next:.3f}{one.nodes:>6}{one.children:>10}"
        f"{one.rate:>8.3f}{one.trained_edges:>12}"
        for one in report.levels
    ]
    sampling = f"{report.num_leaves} samples of each stored group, 0 forwards in the rollout"
    if report.forwards_per_prompt:
        saved = 1 - report.forwards_per_prompt / report.forwards_if_independent
        sampling = (
            f"{report.num_leaves} leaves a prompt from {report.forwards_per_prompt} forwards "
            f"({report.forwards_if_independent} if sampled apart, {saved:.0%} saved)"
        )
    return "\n".join(
        [
            *rows,
            "",
            sampling,
            f"{report.trained_edges} of {report.edges} edges trained" if report.trained_edges else "no edge is trained",
            f"training a prompt takes {report.training_forwards} forwards with gradient, "
            f"{report.evaluated_forwards} without",
            f"evaluations of a sample: {report.nfe_old:g} without gradient, {report.nfe_theta:g} with",
            f"{report.samples_per_step} samples and {report.optimizer_steps} optimizer step(s) a training step, "
            f"{report.total_samples} samples in all",
            f"{report.latent_bytes_per_step / 1e6:.1f} MB of latents kept for one training step",
        ]
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="espalier plan", description="Levels, forwards, trained edges and memory of a run."
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(argv)
    try:
        report = describe(load(options.config, options.set))
    except ValueError as error:
        print(f"espalier plan: {error}", file=sys.stderr)
        return 2
    print(json.dumps(asdict(report), indent=1) if options.json else words(report))
    return 0
