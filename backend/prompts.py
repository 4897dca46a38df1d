"""Where prompts come from, and which of them a training step uses: a pure function of (seed, step)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from backend.methods.settings import Settings
from backend.shapes import prompts as shapes


class Prompts(Settings):
    """The training prompts."""

    source: Literal["shapes-train"] = Field(
        "shapes-train", description="Random prompts of the Shapes world, none held out"
    )
    per_step: int = Field(4, ge=1, le=4096, description="Prompts P in one training step; each grows one group (ours)")

    def batch(self, seed: int, step: int) -> list[str]:
        """P texts. The Shapes tasks take turns, so that every step sees as many of them as it can."""
        rng = np.random.default_rng([seed, step, 1])
        first = step * self.per_step
        tasks = [shapes.TASKS[(first + i) % len(shapes.TASKS)] for i in range(self.per_step)]
        return [shapes.training_prompt(rng, task).text for task in tasks]


def held_out(name: str) -> list[tuple[str, str]]:
    """(prompt, task) of a named evaluation list. Raises ValueError for a name that does not exist."""
    if name != "shapes-test":
        raise ValueError(f"evaluation.prompts: {name!r} is not a list this version has; use 'shapes-test'")
    return [(item.text, item.scene.task) for item in shapes.test_prompts()]
