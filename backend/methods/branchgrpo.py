"""BranchGRPO (arXiv 2509.06040, ICLR 2026): a rollout tree with shared prefixes and an advantage for every edge."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from backend import tree
from backend.methods.pruning import NoPruning, Pruning
from backend.methods.settings import PolicyGradient, Settings
from backend.types import Credit, Plan, Rollout

MOST_LEAVES = 1024


class MixWindow(Settings):
    """BranchGRPO-Mix: only the splits and a sliding window of steps are stochastic, all others follow the ODE."""

    window: int = Field(4, ge=1, description="Stochastic steps in the window (paper 4)")
    stride: int = Field(1, ge=0, description="Steps it moves at a time, until it reaches the end (paper 1)")
    every: int = Field(30, ge=1, description="Training steps between moves (paper 30)")


class BranchGRPO(PolicyGradient):
    """Leaf rewards are fused up the tree, standardised at each depth, and train the edge into each node."""

    name: Literal["branchgrpo"] = "branchgrpo"
    split_steps: tuple[int, ...] = Field(
        (0, 3, 6, 9), min_length=1, description="Denoising steps at which every node splits, from 0 (paper 0, 3, 6, 9)"
    )
    branches: int = Field(2, ge=2, le=64, description="Children K of a node at a split (paper 2)")
    spread: float = Field(
        4.0, gt=0, le=1e6, description="s of the noise of siblings, whose correlation is 1 / (1 + s^2) (paper 4)"
    )
    split_noise: Literal["paper", "released"] = Field(
        "paper",
        description="Noise at splits: of unit variance with a common part, or s times independent noise under the same "
        "density, which biases samples and gradients (release)",
    )
    fusion_beta: float = Field(
        1.0, ge=0, description="Weight of path log-probs in the values; 0 is the mean of the leaves (paper 1)"
    )
    fusion_reduction: Literal["mean", "sum"] = Field(
        "mean", description="Path log-probs over latent dimensions; sum picks close to one leaf (release mean)"
    )
    clip_range: float = Field(1e-3, gt=0, lt=1, description="The ratio is clipped to 1 +- this (released script 1e-3)")
    pruning: Pruning = Field(NoPruning(), description="Edges that are left out of the loss")
    mix: MixWindow | None = Field(None, description="Hybrid of SDE and ODE steps (BranchGRPO-Mix)")

    @model_validator(mode="after")
    def _check_tree(self) -> Self:
        steps = self.split_steps
        if steps[0] < 0 or any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError(f"split_steps: steps must rise from 0 on without repeats, got {list(steps)}; sort them")
        if self.branches ** len(steps) > MOST_LEAVES:
            raise ValueError(
                f"branches: {self.branches} at {len(steps)} splits make {self.branches ** len(steps)} leaves, "
                f"more than {MOST_LEAVES}; split less often or into fewer"
            )
        return self

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """The tree, with the stochastic steps of training step `step`.

        Raises ValueError when a split, the pruning or the mix window does not fit the number of steps.
        """
        num_steps = len(sigmas) - 1
        if self.split_steps[-1] >= num_steps - 1:
            raise ValueError(
                f"split_steps: step {self.split_steps[-1]} cannot split in {num_steps} sampling steps, because step "
                f"{num_steps - 1}, the last, is deterministic; split earlier or sample more steps"
            )
        self.pruning.check(num_steps, self.split_steps)
        parents = tree.splits(num_steps, self.split_steps, self.branches)
        rates = torch.where(self._stochastic(num_steps, step), self._rates(sigmas), 0.0)
        inflated = self.split_noise == "released"
        return Plan(sigmas, parents, rates, self._noise, spread=self.spread, inflated=inflated)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """Fused values, their advantages by depth, and the edges that can be trained and are not pruned."""
        plan, rewards = rollout.plan, rollout.rewards
        assert rewards is not None
        dims = rollout.states[-1][0, 0].numel()
        values = tree.fuse(plan.parents, rewards, rollout.logps, self.fusion_beta, self.fusion_reduction, dims)
        pruned = self.pruning.keep(plan, values, step)
        able = tree.trainable(plan, len(rewards))
        keep = tuple(one & other.to(one.device) for one, other in zip(pruned, able, strict=True))
        return Credit(tree.depth_advantages(values, self.advantage_clip), keep, values)

    def _stochastic(self, num_steps: int, step: int) -> Tensor:
        """bool [T]: the steps with noise; _rates makes the last one deterministic in any case."""
        if self.mix is None:
            return torch.ones(num_steps, dtype=torch.bool)
        last_start = num_steps - 1 - self.mix.window
        if last_start < 0:
            raise ValueError(
                f"mix.window: a window of {self.mix.window} steps does not fit the {num_steps - 1} steps that can be "
                "stochastic; make it narrower or sample more steps"
            )
        start = tree.window_start(0, self.mix.stride, self.mix.every, last_start, step)
        stochastic = torch.zeros(num_steps, dtype=torch.bool)
        stochastic[start : start + self.mix.window] = True
        stochastic[list(self.split_steps)] = True
        return stochastic
