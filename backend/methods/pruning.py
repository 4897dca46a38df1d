"""Which edges of a rollout tree are trained (BranchGRPO). Sampling, rewards and advantages stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from backend import tree
from backend.methods.settings import Settings
from backend.types import Plan


class NoPruning(Settings):
    """Train every edge."""

    kind: Literal["none"] = "none"

    def check(self, num_steps: int, split_steps: Sequence[int]) -> None:
        """Fits any tree."""

    def keep(self, plan: Plan, values: Sequence[Tensor], step: int) -> tuple[Tensor, ...]:
        return tree.outside_window(values, first=0, width=0)


class ParentTop1(Settings):
    """Width pruning: below the last split, train only the better child of each parent."""

    kind: Literal["parent_top1"] = "parent_top1"

    def check(self, num_steps: int, split_steps: Sequence[int]) -> None:
        """Fits any tree."""

    def keep(self, plan: Plan, values: Sequence[Tensor], step: int) -> tuple[Tensor, ...]:
        return tree.parent_top1(plan.parents, values)


class Extreme(Settings):
    """Width pruning: below the last split, train only the best and the worst leaves."""

    kind: Literal["extreme"] = "extreme"
    leaves: int = Field(4, ge=1, description="Leaves kept at each end of the ranking (ours: a quarter of 16)")

    def check(self, num_steps: int, split_steps: Sequence[int]) -> None:
        """Fits any tree; with fewer than twice `leaves` leaves nothing is pruned."""

    def keep(self, plan: Plan, values: Sequence[Tensor], step: int) -> tuple[Tensor, ...]:
        return tree.extreme(plan.parents, values, self.leaves)


class DepthWindow(Settings):
    """Depth pruning: a sliding window of depths is not trained. A child of denoising step i has depth i + 1."""

    kind: Literal["depth"] = "depth"
    width: int = Field(4, ge=1, description="Depths in the window (paper 4)")
    start: int | None = Field(
        None, ge=1, description="Its first depth at the start (empty: the last split's, as paper)"
    )
    stride: int = Field(
        1, description="Depths it moves at a time: > 0 towards the data (paper), < 0 the noise (release)"
    )
    every: int = Field(30, ge=1, description="Training steps between moves (paper 30)")
    stop: int | None = Field(
        None, ge=1, description="First depth it never moves past (empty: as far as it goes; release 9)"
    )

    def check(self, num_steps: int, split_steps: Sequence[int]) -> None:
        """Raise ValueError unless the window lies within depths 1 .. num_steps - 1 wherever it may stand."""
        start, stop = self._ends(num_steps, split_steps[-1])
        deepest = num_steps - self.width
        for name, depth in (("start", start), ("stop", stop)):
            if not 1 <= depth <= deepest:
                raise ValueError(
                    f"pruning.{name}: a window of {self.width} depths from {depth} on leaves the trained depths "
                    f"1 to {num_steps - 1}; choose {name} within 1 to {deepest}, or a smaller width"
                )

    def keep(self, plan: Plan, values: Sequence[Tensor], step: int) -> tuple[Tensor, ...]:
        split_steps = [i for i, parents in enumerate(plan.parents) if len(parents) > plan.widths[i]]
        start, stop = self._ends(plan.num_steps, split_steps[-1])
        return tree.outside_window(values, tree.window_start(start, self.stride, self.every, stop, step), self.width)

    def _ends(self, num_steps: int, last_split: int) -> tuple[int, int]:
        start = last_split + 1 if self.start is None else self.start
        farthest = num_steps - self.width if self.stride >= 0 else 1
        return start, farthest if self.stop is None else self.stop


Pruning = Annotated[NoPruning | ParentTop1 | Extreme | DepthWindow, Field(discriminator="kind")]
