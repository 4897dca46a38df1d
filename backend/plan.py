"""What a run will cost, worked out before it starts: `espalier plan CONFIG`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from backend.config import RunConfig, load
from backend.types import Plan, Rollout

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
    """Costs of one training step at the start of a run; bytes where a name says so."""

    method: str
    num_steps: int
    num_leaves: int
    forwards_per_prompt: int
    forwards_if_independent: int
    edges: int
    trained_edges: int
    training_forwards: int
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
    rollout = Rollout(plan, ("",), _Latents(), states, logps, rewards)
    keep = [level[0] & plan.noisy(i) for i, level in enumerate(config.method.credit(rollout, 0).keep)]
    parents = sum(len(plan.parents[i][level].unique()) for i, level in enumerate(keep))
    return [int(level.sum()) for level in keep], parents


def describe(config: RunConfig) -> PlanReport:
    """The costs of a config's training step, counted on the plan itself."""
    plan = config.method.plan(0, config.grid())
    widths = plan.widths
    trained, parents = count(plan, config)
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
    guided = 2 if config.model.guidance > 1 else 1
    return PlanReport(
        method=config.method.name,
        num_steps=plan.num_steps,
        num_leaves=plan.num_leaves,
        forwards_per_prompt=plan.forwards_per_prompt,
        forwards_if_independent=plan.num_steps * plan.num_leaves,
        edges=sum(widths[1:]),
        trained_edges=sum(trained),
        training_forwards=parents,
        prompts_per_step=num_prompts,
        samples_per_step=num_prompts * plan.num_leaves,
        forwards_per_step=guided * num_prompts * plan.forwards_per_prompt,
        optimizer_steps=config.method.updates_per_rollout,
        total_steps=config.steps,
        total_samples=config.steps * num_prompts * plan.num_leaves,
        latent_bytes_per_step=BYTES * num_prompts * sum(widths) * _latent_size(config),
        levels=levels,
    )


def _latent_size(config: RunConfig) -> int:
    """Elements of one latent, read from the base's configuration; 0 when the base is not on this machine."""
    path = Path(config.model.folder()) / "transformer" / "config.json"
    if not path.is_file():
        return 0
    found = json.loads(path.read_text())
    return int(found["in_channels"] * found["sample_size"] ** 2)


def words(report: PlanReport) -> str:
    """The report as a table."""
    rows = ["step  sigma          nodes  children  noise   trained edges"]
    rows += [
        f"{one.step:>4}  {one.sigma:.3f} -> {one.sigma_next:.3f}{one.nodes:>6}{one.children:>10}"
        f"{one.rate:>8.3f}{one.trained_edges:>12}"
        for one in report.levels
    ]
    saved = 1 - report.forwards_per_prompt / report.forwards_if_independent
    return "\n".join(
        [
            *rows,
            "",
            f"{report.num_leaves} leaves a prompt from {report.forwards_per_prompt} forwards "
            f"({report.forwards_if_independent} if sampled apart, {saved:.0%} saved)",
            f"{report.trained_edges} of {report.edges} edges trained, "
            f"by {report.training_forwards} forwards with gradient",
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
