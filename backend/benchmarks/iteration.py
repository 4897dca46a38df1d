"""Time per iteration on the paper's tree of 20 steps: variants in one process, taking turns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from backend.benchmarks.forwards import count
from backend.benchmarks.jobs import base_digest, chosen, fingerprint
from backend.benchmarks.records import Iterations
from backend.benchmarks.variants import ITERATIONS, Profile
from backend.clock import Clock
from backend.config import RunConfig, load, preset_names, preset_path
from backend.device import pick
from backend.facts import environment
from backend.train import Trainer

FILE = "iteration.json"
COMMAND = "espalier bench methods --part iteration"


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def configs() -> dict[str, RunConfig]:
    """The variants whose preset is there, by name."""
    present = [one for one in ITERATIONS if f"shapes-{one.method}" in preset_names()]
    return {one.name: load(preset_path(f"shapes-{one.method}"), list(one.overrides)) for one in present}


def mark(wanted: Mapping[str, RunConfig], profile: Profile) -> str:
    bases = [base_digest(config.model.folder()) for config in wanted.values()]
    settings = {name: chosen(one, "model", "method", "rewards", "prompts", "sampling") for name, one in wanted.items()}
    return fingerprint([settings, profile.rounds, bases])


def measure(wanted: Mapping[str, RunConfig], profile: Profile) -> Iterations:
    """Each variant trains one step to warm up, then one a round; every round starts with another variant."""
    names = list(wanted)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        policies = {name: config.model.load(pick(), config.seed) for name, config in wanted.items()}
        forwards = {name: count(config, policies[name]) for name, config in wanted.items()}
        trainers = {
            name: Trainer(config, Path(folder), policies[name], emit=lambda event: None)
            for name, config in wanted.items()
        }
        for turn in range(profile.rounds):
            start = turn % len(names)
            for name in names[start:] + names[:start]:
                clock = Clock()
                trainers[name].train_step(turn + 1, clock)
                seconds[name].append(round(clock.seconds["step"], 4))
        facts = environment(pick())
    samples = {name: config.prompts.per_step * trainers[name].config.method.plan(0, trainers[name].sigmas).num_leaves
               for name, config in wanted.items()}  # fmt: skip
    return Iterations(
        fingerprint=mark(wanted, profile),
        command=COMMAND,
        facts=facts,
        seconds=seconds,
        forwards=forwards,
        num_samples=samples,
    )
