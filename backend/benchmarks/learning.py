"""`espalier bench learning`: train a preset with several seeds and tabulate what each of them gained."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

from backend import events
from backend.config import load
from backend.events import EvaluationDone, RunStarted, StepDone

FILE = "learning.md"


@dataclass(frozen=True)
class Outcome:
    """One seed's run: whole seconds from process start to exit, steps trained, reports before and after."""

    seed: int
    seconds: float
    steps: int
    before: dict[str, Any]
    after: dict[str, Any]
    facts: dict[str, str]


def run_seed(config: Path, seed: int, folder: Path, overrides: list[str]) -> Outcome:
    """`espalier train` in a process of its own. Raises RuntimeError when it fails."""
    settings = [part for one in [f"seed={seed}", *overrides] for part in ("--set", one)]
    started = perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "app", "train", str(config), "--out", str(folder), *settings], check=False
    )
    seconds = perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"seed {seed}: training ended with exit code {done.returncode}; its events are in {folder}")
    return read_outcome(folder, seed, seconds)


def read_outcome(folder: Path, seed: int, seconds: float) -> Outcome:
    """What a finished run folder tells."""
    seen = events.read(folder / "events.jsonl")
    reports = [one for one in seen if isinstance(one, EvaluationDone)]
    return Outcome(
        seed=seed,
        seconds=seconds,
        steps=sum(isinstance(one, StepDone) for one in seen),
        before=reports[0].report,
        after=reports[-1].report,
        facts=next(one.facts for one in seen if isinstance(one, RunStarted)),
    )


def _interval(value: dict[str, float]) -> str:
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def table(outcomes: list[Outcome]) -> str:
    """Markdown: one row a seed, then strict accuracy by task. Prompts without one have their first reward instead."""
    strict = "strict_accuracy" in outcomes[0].before
    name = "strict" if strict else next(iter(outcomes[0].before["rewards"]))
    quality = ["quality before", "quality after"] if strict else []
    head = ["seed", f"{name} before", f"{name} after", "gain", *quality, "steps", "seconds"]
    rows = [_row(head), "|---" * len(head) + "|"]
    for one in outcomes:
        before, after = (_overall(report, name) for report in (one.before, one.after))
        rows.append(
            _row([
                str(one.seed), _interval(before), _interval(after), f"{after['mean'] - before['mean']:+.3f}",
                *(f"{report['quality']['mean']:.3f}" for report in (one.before, one.after) if strict),
                str(one.steps), f"{one.seconds:.0f}",
            ])
        )  # fmt: skip
    reports = [outcomes[0].before, *(one.after for one in outcomes)]
    tables = [_by_task(report, name) for report in reports]
    if tables[0]:
        rows += ["", _row(["task", "before", *(f"after, seed {one.seed}" for one in outcomes)])]
        rows.append("|---" * (len(outcomes) + 2) + "|")
        rows += [_row([task, *(f"{table[task]['mean']:.3f}" for table in tables)]) for task in tables[0]]
    return "\n".join(rows)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _overall(report: dict[str, Any], name: str) -> dict[str, float]:
    found: dict[str, float] = report["strict_accuracy"]["overall"] if name == "strict" else report["rewards"][name]
    return found


def _by_task(report: dict[str, Any], name: str) -> dict[str, dict[str, float]]:
    if name == "strict":
        strict: dict[str, dict[str, float]] = report["strict_accuracy"]["tasks"]
        return strict
    return {task: one["rewards"][name] for task, one in report.get("tasks", {}).items()}


def measure(config: Path, seeds: list[int], folder: Path, overrides: list[str]) -> str:
    """Run every seed and describe the outcomes; a seed whose folder is already there is an error of `train`."""
    name = load(config, overrides).name
    outcomes = [run_seed(config, seed, folder / f"seed-{seed}", overrides) for seed in seeds]
    facts = outcomes[0].facts
    settings = "".join(f" --set {one}" for one in overrides)
    command = f"espalier bench learning {config} --seeds {' '.join(map(str, seeds))}{settings}"
    return (
        f"## What the preset learns: {name}\n\n"
        f"Made by `{command}` on {date.today()}: {facts['cores']} cores ({facts['device']}), "
        f"torch {facts['torch']}, revision {facts['git']}. Intervals are 95 %, by bootstrap over prompts; seconds are "
        f"the whole process, with loading and both evaluations.\n\n{table(outcomes)}\n"
    )
