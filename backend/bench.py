"""`espalier bench`: where the time of a training step goes, and what a preset learns."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from backend.config import RunConfig, load, preset_path
from backend.device import pick
from backend.learning import measure as learning_table
from backend.train import Clock, Trainer


@dataclass
class TimedPolicy:
    """A policy that adds up the seconds inside the network: denoiser, text encoders and decoder."""

    inner: Any
    seconds: float = field(default=0.0, init=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _timed(self, call: Any, *arguments: Any) -> Any:
        _wait(self.inner.device)
        started = perf_counter()
        result = call(*arguments)
        _wait(self.inner.device)
        self.seconds += perf_counter() - started
        return result

    def encode(self, prompts: Sequence[str]) -> Any:
        return self._timed(self.inner.encode, prompts)

    def velocity(self, *arguments: Any) -> Tensor:
        result: Tensor = self._timed(self.inner.velocity, *arguments)
        return result

    def decode(self, x0: Tensor) -> Tensor:
        result: Tensor = self._timed(self.inner.decode, x0)
        return result


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(config: RunConfig, steps: int) -> dict[str, float]:
    """Train a warm-up step and then `steps` steps; seconds a step by phase, and the model's share of it."""
    policy = TimedPolicy(config.model.load(pick(), config.seed))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Path(folder), policy, emit=lambda event: None)
        trainer.train_step(0, Clock())
        policy.seconds, clock = 0.0, Clock()
        for step in range(1, steps + 1):
            trainer.train_step(step, clock)
    whole = clock.seconds["step"]
    model = policy.seconds + clock.seconds["backward"]
    return {
        "steps": steps,
        "seconds_per_step": whole / steps,
        "forward": policy.seconds / steps,
        "backward": clock.seconds["backward"] / steps,
        "reward": clock.seconds["reward"] / steps,
        "other": (whole - model - clock.seconds["reward"]) / steps,
        "model_share": model / whole,
    }


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="espalier bench", description="Measurements, made on this machine now.")
    kinds = parser.add_subparsers(dest="what", required=True)
    step = kinds.add_parser("step", help="where the time of a training step goes")
    step.add_argument("--steps", type=int, default=10, help="training steps measured, after one to warm up")
    step.add_argument("--json", action="store_true")
    learning = kinds.add_parser("learning", help="held-out accuracy before and after a preset, for several seeds")
    learning.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    learning.add_argument("--out", type=Path, default=Path("data/learning"), help="run folders, one a seed")
    for kind in (step, learning):
        kind.add_argument("config", type=Path, nargs="?", default=preset_path("shapes-branchgrpo"))
        kind.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting")
    options = parser.parse_args(argv)
    try:
        if options.what == "step":
            _print_step(measure(load(options.config, options.set), options.steps), options.json)
        else:
            print(learning_table(options.config, options.seeds, options.out, options.set))
    except (ValueError, RuntimeError) as error:
        print(f"espalier bench: {error}", file=sys.stderr)
        return 2
    return 0


def _print_step(found: dict[str, float], as_json: bool) -> None:
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for phase in ("forward", "backward", "reward", "other"):
        print(f"{phase:<10}{found[phase]:>8.3f} s a step{found[phase] / found['seconds_per_step']:>8.1%}")
    print(
        f"{found['seconds_per_step']:.3f} s a step; {found['model_share']:.1%} inside the model's forward and backward"
    )
