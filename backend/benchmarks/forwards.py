"""How many latents a training step sends through the network, counted on a real step."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.benchmarks.records import Forwards
from backend.clock import Clock
from backend.config import RunConfig
from backend.device import pick
from backend.train import Trainer
from backend.types import Weights


@dataclass
class CountedPolicy:
    """A policy that counts the latents it evaluates, with and without gradient; guidance evaluates each twice."""

    inner: Any
    trained: int = field(default=0, init=False)
    evaluated: int = field(default=0, init=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def velocity(
        self, x: Tensor, sigma: Tensor, cond: Any, weights: Weights = "current", guidance: float | None = None
    ) -> Tensor:
        rows = len(x) * self.inner.settings.passes(guidance)
        if torch.is_grad_enabled():
            self.trained += rows
        else:
            self.evaluated += rows
        result: Tensor = self.inner.velocity(x, sigma, cond, weights, guidance)
        return result


def count(config: RunConfig, policy: Any) -> Forwards:
    """Take the run's first training step with `policy`, whose weights it changes. Stored groups cost no rollout."""
    counted = CountedPolicy(policy)
    offline = config.groups is not None
    with tempfile.TemporaryDirectory() as folder:
        online = config.model_copy(update={"groups": None})
        trainer = Trainer(online, Path(folder), counted, emit=lambda event: None)
        rollout = trainer.roll_out(0, Clock())
        sampled, counted.evaluated = counted.evaluated, 0
        trainer.update(rollout, config.method.credit(rollout, 0), 0, Clock())
    return Forwards(rollout=0 if offline else sampled, evaluated=counted.evaluated, trained=counted.trained)


def count_all(configs: Sequence[RunConfig]) -> list[Forwards]:
    """One count a config; a model is loaded once for all configs that share it."""
    policies: dict[str, Any] = {}
    found = []
    for config in configs:
        model = config.model.model_dump_json()
        if model not in policies:
            policies[model] = config.model.load(pick(), config.seed)
        found.append(count(config, policies[model]))
    return found
