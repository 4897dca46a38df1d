"""Turns one prompt's rollout tree into TreeDrawn events: while it grows, and once it has been judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend import media
from backend.events import Event, Sprite, TreeDrawn
from backend.types import Credit, Plan, Rollout


def _rounded(values: Tensor, digits: int = 6) -> list[float]:
    return [round(float(value), digits) for value in values]


def _known(values: Tensor) -> list[float | None]:
    return [round(float(value), 6) if math.isfinite(value) else None for value in values]


def thumbnail_levels(plan: Plan) -> list[int]:
    """Levels whose nodes get a picture: those about to split, and the leaves."""
    widths = plan.widths
    splitting = [level for level in range(plan.num_steps) if widths[level + 1] > widths[level]]
    return [*splitting, plan.num_steps]


class TreeRecorder:
    """Watches the first prompt of one training step (1 is the first). policy decodes the x0 predictions at splits."""

    PROMPT = 0

    def __init__(self, step: int, run_dir: Path, policy: Any, emit: Callable[[Event], None]) -> None:
        self._step, self._run_dir, self._policy, self._emit = step, run_dir, policy, emit
        self._nodes: list[tuple[int, int]] = []
        self._frames: list[Tensor] = []

    def on_level(self, plan: Plan, prompts: Sequence[str]) -> Callable[[int, Tensor, Tensor | None], None]:
        """The callback for `sample`."""
        pictured = thumbnail_levels(plan)

        def drawn(level: int, states: Tensor, predicted: Tensor | None) -> None:
            if level not in pictured:
                return
            latents = (states if predicted is None else predicted)[self.PROMPT]
            self._frames += list(self._policy.decode(latents)[:, 0])
            self._nodes += [(level, index) for index in range(len(latents))]
            if level < plan.num_steps:
                self._emit(self._event(plan, prompts[self.PROMPT], level))

        return drawn

    def finish(self, rollout: Rollout, credit: Credit) -> None:
        """Emit the whole tree with its rewards, values and advantages."""
        p = self.PROMPT
        assert rollout.rewards is not None
        grown = self._event(rollout.plan, rollout.prompts[p], rollout.plan.num_steps)
        self._emit(
            grown.model_copy(
                update={
                    "logps": [_known(level[p]) for level in rollout.logps],
                    "values": [_known(level[p]) for level in credit.values],
                    "advantages": [_rounded(level[p]) for level in credit.advantages],
                    "keep": [[bool(kept) for kept in level[p]] for level in credit.keep],
                    "rewards": _known(rollout.rewards[p]),
                    "parts": {name: _known(part[p]) for name, part in rollout.parts.items()},
                }
            )
        )

    def _event(self, plan: Plan, prompt: str, level: int) -> TreeDrawn:
        return TreeDrawn(
            step=self._step,
            prompt_index=self.PROMPT,
            prompt=prompt,
            level=level,
            sigmas=_rounded(plan.sigmas),
            rates=_rounded(plan.rates),
            parents=[parents.tolist() for parents in plan.parents[:level]],
            logps=[],
            sprite=self._sprite(),
        )

    def _sprite(self) -> Sprite:
        return media.save_sprite(self._run_dir, torch.stack(self._frames), list(self._nodes))
