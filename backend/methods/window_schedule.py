"""Where MixGRPO's window of stochastic steps starts, as a function of the training step (MixGRPO, Alg. 1 and 2)."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field

from backend.methods.settings import Settings


class Sliding(Settings):
    """A window that moves from the noise to the data, and rests at each place for some training steps."""

    every: int = Field(25, ge=1, description="Training steps tau between moves (FLUX 25, SD3.5 150)")
    stride: int = Field(1, ge=1, description="Steps it moves at a time (paper 1)")
    roll_back: bool = Field(False, description="Begin again at step 0 after the last place (release), or stay (paper)")

    def start(self, step: int, last: int) -> int:
        """First step of the window at training step `step`; `last` is the farthest it can be."""
        places = list(range(0, last + 1, self.stride))
        rests = [self.rest(place, last) for place in places]
        if self.roll_back:
            step %= sum(rests)
        for place, rest in zip(places, rests, strict=True):
            if step < rest:
                return place
            step -= rest
        return last

    def rest(self, place: int, last: int) -> int:
        """Training steps at a place."""
        return self.every


class Progressive(Sliding):
    """The same rest at every place: the paper's choice."""

    kind: Literal["progressive"] = "progressive"


class Exponential(Sliding):
    """Rests that shrink exponentially beyond a place: ceil(tau exp(-decay relu(place - threshold)))."""

    kind: Literal["exponential"] = "exponential"
    decay: float = Field(0.1, gt=0, description="k of the exponent (paper 0.1)")
    threshold: int = Field(13, ge=0, description="Place beyond which rests shrink (paper 13)")

    def rest(self, place: int, last: int) -> int:
        return math.ceil(self.every * math.exp(-self.decay * max(0, place - self.threshold)))


class Linear(Sliding):
    """Rests that shrink linearly, from tau at the first place to a quarter of it at the last (release)."""

    kind: Literal["linear"] = "linear"

    def rest(self, place: int, last: int) -> int:
        least = max(1, self.every // 4)
        return int(self.every + (least - self.every) * place / max(1, last))


class Random(Settings):
    """A place drawn anew for each training step."""

    kind: Literal["random"] = "random"

    def start(self, step: int, last: int) -> int:
        return int(torch.randint(last + 1, (), generator=torch.Generator().manual_seed(step)))


class Frozen(Settings):
    """The first steps, throughout."""

    kind: Literal["frozen"] = "frozen"

    def start(self, step: int, last: int) -> int:
        return 0


Schedule = Annotated[Progressive | Exponential | Linear | Random | Frozen, Field(discriminator="kind")]
