"""Held-out prompts at fixed seeds through a set of weights: `espalier evaluate`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backend import checkpoint, media, negative_prompts
from backend.config import RunConfig, load, preset_path
from backend.prompts import sources
from backend.prompts.record import Prompt
from backend.rewards import judging
from backend.rewards.judging import Verdicts
from backend.rollout import sample
from backend.types import ALONE, Plan, Ranks, share
from backend.worlds import HELD_OUT

BATCH = 60
RESAMPLES = 1000

Scores = dict[str, NDArray[np.float64]]
Ask = Callable[..., Verdicts]


@dataclass(frozen=True)
class Item:
    """One picture to make: which prompt of the list, which seed. task: empty where its source names none."""

    prompt_index: int
    prompt: str
    task: str
    seed: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    first_frame: str | None = None
    negative_prompt: str | None = None


@dataclass(frozen=True)
class Evaluated:
    """items N; scores by name, float64 [N] each: the rewards, in a built-in world also "strict" and "quality".

    own     the items, an unbroken run of them, that this process has made: all where it is alone
    frames  [len(own), F, C, H, W], those of its own items
    """

    items: list[Item]
    scores: Scores
    own: range
    frames: Tensor


def generator(seed: int, *place: int) -> torch.Generator:
    """A CPU generator that depends on nothing but its arguments."""
    # SeedSequence ignores trailing zeros, so the number of arguments is made one of them
    state = np.random.SeedSequence((len(place), seed, *place)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def items_of(config: RunConfig) -> list[Item]:
    """Every held-out prompt with every seed, but for those left out; with a limit, evenly spaced prompts.

    Raises ValueError when all are left out.
    """
    listed = sources.held_out(config.evaluation.prompts)
    left = sorted(set(range(len(listed))) - set(config.evaluation.leave_out))
    if not left:
        raise ValueError("evaluation.leave_out: no prompt of the list is left to evaluate; leave out fewer")
    limit = min(config.evaluation.limit or len(left), len(left))
    chosen = [left[int(place)] for place in np.linspace(0, len(left) - 1, limit).round()]
    return [_item(i, listed[i], seed) for seed in config.evaluation.seeds for i in chosen]


def _item(index: int, prompt: Prompt, seed: int) -> Item:
    return Item(index, prompt.text, prompt.task, seed, prompt.metadata, prompt.first_frame, prompt.negative_prompt)


def ode_plan(sigmas: Tensor) -> Plan:
    """One deterministic sample a prompt."""
    steps = len(sigmas) - 1
    return Plan(
        sigmas, (torch.zeros(1, dtype=torch.long),) * steps, torch.zeros(steps, dtype=torch.float64), keep="last"
    )


def generate(policy: Any, items: Sequence[Item], config: RunConfig) -> Tensor:
    """Frames [N, F, C, H, W] at 8-bit levels, by the ODE; the noise depends on prompt index and seed alone."""
    generators = [generator(item.seed, item.prompt_index) for item in items]
    plan = ode_plan(config.evaluation_grid())
    texts = [item.prompt for item in items]
    cond = policy.condition(texts, [item.first_frame for item in items], [item.negative_prompt for item in items])
    rollout = sample(policy, texts, plan, generators, cond, micro_batch=config.sampling.micro_batch)
    return media.quantise(policy.decode(rollout.states[-1][:, 0]))


def score(frames: Tensor, items: Sequence[Item], config: RunConfig, ask: Ask = judging.score) -> Scores:
    """Each reward, held-out ones too, [N] each; NaN where a reward could not judge.

    Prompts of a built-in world have strict correctness and quality, too. ask is called as `judging.score`.
    """
    texts = [item.prompt for item in items]
    metadata = [item.metadata for item in items]
    found = ask((*config.rewards, *config.evaluation.rewards), frames, texts, metadata)
    scores: Scores = {name: part.numpy() for name, part in found.parts.items()}
    if world := HELD_OUT.get(config.evaluation.prompts):
        shown = world.shown(frames)
        verdicts = world.verify(shown, [world.parse(text) for text in texts])
        scores["strict"] = np.array([float(verdict.strict) for verdict in verdicts])
        scores["quality"] = world.quality(shown).astype(np.float64)
    return scores


def evaluate(
    policy: Any,
    config: RunConfig,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
    ask: Ask = judging.score,
    ranks: Ranks = ALONE,
    items: Sequence[Item] | None = None,
) -> Evaluated | None:
    """Sample and score the items (None: all of the config's evaluation), each process its share of them.

    Returns None when one of the processes was stopped on the way. All processes sample equally often, the last item
    of a share standing in where there is none left, because a model may be spread over them.
    """
    items = items_of(config) if items is None else list(items)
    own = share(len(items), ranks)
    most = -(-len(items) // ranks.size)
    turns = [*own, *[own.stop - 1 if own else 0] * (most - len(own))]
    frames, scores = [], []
    for start in range(0, most, BATCH):
        if any(ranks.gather(stop())):
            return None
        part = [items[place] for place in turns[start : start + BATCH]]
        frames.append(generate(policy, part, config))
        if wanted := part[: max(0, len(own) - start)]:
            scores.append(score(frames[-1][: len(wanted)], wanted, config, ask))
        on_progress(min(ranks.size * (start + len(part)), len(items)), len(items))
    told = [one for each in ranks.gather(scores) for one in each]
    merged = {name: np.concatenate([one[name] for one in told]) for name in told[0]}
    return Evaluated(items, merged, own, torch.cat(frames)[: len(own)])


def _mean(values: NDArray[np.float64], axis: int | None = None) -> NDArray[np.float64]:
    """The mean of what is not NaN; NaN where all is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = np.where(known, values, 0.0).sum(axis) / known.sum(axis)
    return found


def _interval(mean: float, resampled: NDArray[np.float64]) -> dict[str, float | None]:
    if np.isnan(mean):
        return {"mean": None, "low": None, "high": None}
    low, high = np.nanpercentile(resampled, [2.5, 97.5])
    return {"mean": round(mean, 6), "low": round(float(low), 6), "high": round(float(high), 6)}


def report(evaluated: Evaluated, step: int, held_out: Sequence[str] = ()) -> dict[str, Any]:
    """Means with 95 % bootstrap intervals over prompts, resampled inside each task.

    Overall means are means of task means (GenEval). Where there is no strict accuracy, prompts being of no built-in
    world, the report has the rewards by task instead. Samples that a reward could not judge are counted as
    its `failed` and left out of its mean, which is None where there are no others. held_out names the rewards that
    the run does not train on.
    """
    tasks = [item.task for item in evaluated.items]
    names = list(dict.fromkeys(tasks))
    prompt_of = np.array([item.prompt_index for item in evaluated.items])
    rng = np.random.default_rng(0)
    draws = []
    for task in names:
        members = np.unique(prompt_of[np.array(tasks) == task])
        draws.append((task, members, rng.integers(len(members), size=(RESAMPLES, len(members)))))

    def by_task(values: NDArray[np.float64]) -> dict[str, tuple[float, NDArray[np.float64]]]:
        found = {}
        for task, members, picks in draws:
            means = np.array([_mean(values[prompt_of == prompt]) for prompt in members])
            found[task] = (float(_mean(means)), _mean(means[picks], 1))
        return found

    def overall(values: NDArray[np.float64]) -> dict[str, float | None]:
        found = list(by_task(values).values())
        failed = int(np.isnan(values).sum())
        means = np.array([mean for mean, _ in found])
        told = _interval(float(_mean(means)), _mean(np.stack([resampled for _, resampled in found]), 0))
        return told | ({"failed": failed} if failed else {})

    counts = {task: tasks.count(task) for task in names if task}
    rewards = {name: values for name, values in evaluated.scores.items() if name not in ("strict", "quality")}
    shapes: dict[str, Any] = {}
    if "strict" in evaluated.scores:
        strict = by_task(evaluated.scores["strict"])
        shapes["strict_accuracy"] = {
            "overall": overall(evaluated.scores["strict"]),
            "tasks": {task: _interval(*strict[task]) | {"count": count} for task, count in counts.items()},
        }
        shapes["quality"] = overall(evaluated.scores["quality"])
    elif counts:
        means = {name: by_task(values) for name, values in rewards.items()}
        shapes["tasks"] = {
            task: {"count": count, "rewards": {name: _interval(*found[task]) for name, found in means.items()}}
            for task, count in counts.items()
        }
    return {
        **shapes,
        "rewards": {name: overall(values) for name, values in rewards.items()},
        "held_out": list(held_out),
        "num_prompts": len(np.unique(prompt_of)),
        "seeds": sorted({item.seed for item in evaluated.items}),
        "step": step,
    }


def _words(found: dict[str, Any]) -> str:
    def line(name: str, value: dict[str, Any]) -> str:
        failed = f"   {value['failed']} could not be judged" if "failed" in value else ""
        if value["mean"] is None:
            return f"{name:<22}{failed.strip()}"
        return f"{name:<22}{value['mean']:.4f}   [{value['low']:.4f}, {value['high']:.4f}]{failed}"

    rows = []
    if strict := found.get("strict_accuracy"):
        rows += [line("strict accuracy", strict["overall"])]
        rows += [line(f"  {task}", value) for task, value in strict["tasks"].items()]
    for name, value in found["rewards"].items():
        rows += [line(f"reward {name}", value)]
        rows += [line(f"  {task}", one["rewards"][name]) for task, one in found.get("tasks", {}).items()]
    return "\n".join([*rows, *([line("held-out quality", found["quality"])] if strict else [])])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="espalier evaluate",
        description="Rewards, in a built-in world also strict accuracy and quality, with 95 % intervals.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--checkpoint", type=Path, metavar="DIR", help="a checkpoint-<step> folder, or a run folder")
    which.add_argument("--base", metavar="NAME", help="a base without training: shapes, moving, a folder, or a hub id")
    parser.add_argument("--prompts", help="shapes-test, moving-test, or a file of prompts; default: those of the run")
    parser.add_argument("--seed", type=int, action="append", metavar="S", help="noise seed; repeat for several")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting")
    parser.add_argument("--weights", choices=["current", "ema"], help="default: ema where the run kept one")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(argv)
    prompts = [f"evaluation.prompts={json.dumps(options.prompts)}"] if options.prompts else []
    overrides = [*prompts, f"evaluation.seeds={options.seed or [0]}", *options.set]
    try:
        found = _evaluate_command(options, overrides)
    except ValueError as error:
        print(f"espalier evaluate: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=1) if options.json else _words(found))
    return 0


def _evaluate_command(options: argparse.Namespace, overrides: list[str]) -> dict[str, Any]:
    from backend.device import pick

    step = 0
    folder: Path | None = options.checkpoint
    if folder is None:
        preset = "moving-dgpo" if options.base == "moving" else "shapes-branchgrpo"
        config = load(preset_path(preset), [f"model.base={options.base}", *overrides])
    else:
        if folder.is_dir() and not folder.name.startswith("checkpoint-"):
            folder = checkpoint.latest(folder)
        if folder is None or not (folder / "config.yaml").is_file():
            raise ValueError(f"--checkpoint: {options.checkpoint} holds no complete checkpoint; give a run folder")
        config = load(folder / "config.yaml", overrides)
    for name, told in negative_prompts.facts(config, trains=False).items():
        print(f"{name}: {told}", file=sys.stderr)
    policy = config.model.load(pick(), config.seed)
    if folder is not None:
        step = checkpoint.load_weights(folder, policy, prefer_ema=options.weights != "current")
    evaluated = evaluate(policy, config, on_progress=_print_progress)
    assert evaluated is not None
    return report(evaluated, step, config.evaluation.held_out)


def _print_progress(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rsampled {done} of {total}", end=end, file=sys.stderr, flush=True)
