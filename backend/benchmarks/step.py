"""`espalier bench step`: where the time of a training step goes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from backend.clock import Clock
from backend.config import RunConfig
from backend.device import pick
from backend.train import Trainer


@dataclass
class TimedPolicy:
    """A policy that adds up the seconds inside the network: denoiser, text encoders and decoder."""

    inner: Any
    seconds: float = field(default=0.0, init=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _timed(self, call: Any, *arguments: Any, **named: Any) -> Any:
        _wait(self.inner.device)
        started = perf_counter()
        result = call(*arguments, **named)
        _wait(self.inner.device)
        self.seconds += perf_counter() - started
        return result

    def encode(self, prompts: Sequence[str]) -> Any:
        return self._timed(self.inner.encode, prompts)

    def velocity(self, *arguments: Any, **named: Any) -> Tensor:
        result: Tensor = self._timed(self.inner.velocity, *arguments, **named)
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


def words(found: dict[str, float]) -> str:
    rows = [
        f"{phase:<10}{found[phase]:>8.3f} s a step{found[phase] / found['seconds_per_step']:>8.1%}"
        for phase in ("forward", "backward", "reward", "other")
    ]
    share = f"{found['model_share']:.1%} inside the model's forward and backward"
    return "\n".join([*rows, f"{found['seconds_per_step']:.3f} s a step; {share}"])
