"""A simulated reviewer of the Shapes world, who knows what a prompt asks for and errs at a known rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backend.shapes import verify
from backend.shapes.prompts import parse

Choice = Literal["left", "right", "tie", "both_bad"]
OPPOSITE: dict[Choice, Choice] = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Reviewer:
    """Prefers the picture that is right, of two wrong ones the one with more of the prompt; else neither.

    error: share of the choices between the two that are turned round.
    """

    error: float = 0.1

    def choose(
        self, left: NDArray[np.float32], right: NDArray[np.float32], texts: Sequence[str], rng: np.random.Generator
    ) -> list[Choice]:
        """Pictures [N, H, W, 3] in 0..1 and N prompts -> N answers. ValueError for a prompt outside the world."""
        scenes = [parse(text) for text in texts]
        verdicts = zip(verify.verify(left, scenes), verify.verify(right, scenes), strict=True)
        return [self._answer((a.strict, a.graded), (b.strict, b.graded), rng.random()) for a, b in verdicts]

    def _answer(self, left: tuple[bool, float], right: tuple[bool, float], luck: float) -> Choice:
        if left == right:
            return "tie" if left[0] else "both_bad"
        truth: Choice = "left" if left > right else "right"
        return OPPOSITE[truth] if luck < self.error else truth
