"""The records that pass between the parts of the engine, and the protocols they meet through.

Shape legend
    P prompts, T denoising steps, W_t nodes at level t (W_0 roots, W_T = G leaves), D... latent dimensions,
    N media, F frames, C channels, H height, W width.
    sigma runs from 1 (noise) to 0 (data): x = (1 - sigma) x0 + sigma eps, v = eps - x0.
    An image is a video with F = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

Weights = Literal["current", "reference", "old"]
Noise = Literal["sde", "cps", "ddim"]
Judge = Callable[[Tensor, Sequence[str]], Tensor]
T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """How one group is sampled: a tree over denoising steps. A flat group is a tree that never splits.

    sigmas   [T+1] float64, 1 -> 0
    parents  T index tensors; parents[i] is Long[W_{i+1}], the level-i parent of each node of level i+1
    rates    [T] float64, the strength of each step's noise; 0 marks a deterministic (ODE) step
    noise    what a rate means: "sde" the diffusion g(sigma_i), "cps" and "ddim" the eta of flow.cps_ and ddim_mean_std
    solver   of the deterministic steps: "euler"; "dpm2m" (DPM-Solver++ 2M, whose memory starts anew after noise); or
             "dpm2m_tail" (DPM-Solver++ 2M after the last noisy step, Euler before it)
    still    T tensors Bool[W_{i+1}]: edges that follow the ODE although their step has noise; empty = none
    spread   s of the branch noise at splits, xi_b = (xi_0 + s eta_b) / sqrt(1 + s^2); inf = independent siblings
    inflated branch noise is s eta_b instead, of std s, while log-probabilities stay those of unit noise
    shared_noise  all roots of a prompt start from the same latent
    weights  which weights sample ("current" or "old")
    keep     "all" stores every level, "last" only the leaves
    """

    sigmas: Tensor
    parents: tuple[Tensor, ...]
    rates: Tensor
    noise: Noise = "sde"
    solver: Literal["euler", "dpm2m", "dpm2m_tail"] = "euler"
    still: tuple[Tensor, ...] = ()
    spread: float = float("inf")
    inflated: bool = False
    shared_noise: bool = True
    weights: Weights = "current"
    keep: Literal["all", "last"] = "all"

    def __post_init__(self) -> None:
        num_steps = len(self.parents)
        if len(self.sigmas) != num_steps + 1 or len(self.rates) != num_steps:
            raise ValueError(
                f"plan: {num_steps} levels of parents need {num_steps + 1} sigmas and {num_steps} rates, "
                f"got {len(self.sigmas)} and {len(self.rates)}"
            )
        if self.inflated and not math.isfinite(self.spread):
            raise ValueError(f"plan.spread: inflated branch noise needs a finite spread, got {self.spread}")
        for step, parents in enumerate(self.parents):
            if step and int(parents.max()) >= len(self.parents[step - 1]):
                raise ValueError(f"plan: step {step} names parent {int(parents.max())}, which does not exist")
            quiet = parents[~self.noisy(step)]
            if len(quiet.unique()) < len(quiet):
                raise ValueError(
                    f"plan: step {step} splits but is deterministic, so the children would be equal; "
                    "give the step a positive rate or move the split"
                )

    def noisy(self, step: int) -> Tensor:
        """Bool[W_{step+1}]: the edges of a step that carry noise, so that their transition has a density."""
        noisy = torch.full((len(self.parents[step]),), bool(self.rates[step] > 0))
        return noisy & ~self.still[step] if self.still else noisy

    @property
    def num_steps(self) -> int:
        return len(self.parents)

    @property
    def widths(self) -> list[int]:
        """W_0 .. W_T, nodes per prompt at each level."""
        return [int(self.parents[0].max()) + 1, *(len(parents) for parents in self.parents)]

    @property
    def num_leaves(self) -> int:
        return self.widths[-1]

    @property
    def forwards_per_prompt(self) -> int:
        """Network evaluations of one rollout: one for each parent and step."""
        return sum(self.widths[:-1])


class Conditioning(Protocol):
    """Encoded prompts, one row a prompt."""

    def take(self, rows: Tensor) -> Self:
        """The conditioning of rows (Long[N]), so that N latents can be evaluated in one forward."""
        ...


class Policy(Protocol):
    """A generator seen as a velocity field."""

    latent_shape: tuple[int, ...]
    device: torch.device

    def encode(self, prompts: Sequence[str]) -> Conditioning: ...

    def velocity(
        self, x: Tensor, sigma: Tensor, cond: Conditioning, weights: Weights = "current", guidance: float | None = None
    ) -> Tensor:
        """x [N, D...], sigma [N] -> v [N, D...] in float32 (float64 when x is). guidance None: the policy's own."""
        ...

    def decode(self, x0: Tensor) -> Tensor:
        """Latents [N, D...] -> frames [N, F, C, H, W] in 0..1, differentiable where x0 is."""
        ...

    def track_old(self, decay: float) -> None:
        """Move the kept "old" weights: old <- decay old + (1 - decay) current. They start as the current ones."""
        ...


class Reward(Protocol):
    """differentiable: whether score carries gradients back to the frames."""

    differentiable: ClassVar[bool]

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, F, C, H, W] in 0..1 and N prompts -> float64 [N], larger is better; NaN where it cannot judge.

        Raises RewardFailed (backend.rewards.judging) when it can judge none of them.
        """
        ...


@runtime_checkable
class MetadataReward(Protocol):
    """A reward that needs what the source of a prompt says of it, such as GenEval's `include` or a text to render.

    needs_metadata  declared by these rewards and by no others: it tells them apart
    """

    differentiable: ClassVar[bool]
    needs_metadata: ClassVar[Literal[True]]

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    def score(self, frames: Tensor, prompts: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> Tensor:
        """As Reward.score, with a mapping for each of the N prompts, empty where its source says nothing."""
        ...


class Memory(Protocol):
    """What a method keeps between training steps; a checkpoint holds its state."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Ranks(Protocol):
    """The processes that share a run. Each call waits for all of them, so all make the same calls in the same order.

    rank  which one this is, from 0;  size  how many there are
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank. They travel pickled, so tensors belong on the CPU."""
        ...

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Each tensor becomes the sum of its namesakes on all processes, in place."""
        ...


@dataclass(frozen=True)
class Alone:
    """A run of one process."""

    rank: int = 0
    size: int = 1

    def gather(self, value: T) -> list[T]:
        return [value]

    def add(self, tensors: Sequence[Tensor]) -> None:
        """A sum of one."""


ALONE = Alone()


def share(num: int, ranks: Ranks) -> range:
    """Which of `num` things this process has: an unbroken run of them, at most one more than another process has."""
    return range(num * ranks.rank // ranks.size, num * (ranks.rank + 1) // ranks.size)


@dataclass(frozen=True)
class Rollout:
    """What was sampled and how it was judged. Where processes share a run, all of it is of all prompts, but for states
    and cond, which each process has of its own prompts alone.

    prompts  P texts;  cond  their conditioning
    states   T+1 tensors [P, W_t, D...] (only the last when plan.keep is "last")
    logps    T tensors [P, W_{t+1}], mean over latent dimensions, detached; NaN on deterministic steps
    rewards  [P, G] float64, the weighted sum;  parts  each reward alone, raw, [P, G];  part_weights  its weight.
             NaN marks a sample that could not be judged, which gets no advantage
    judge    frames [N, F, C, H, W] and N prompts -> the weighted sum [N], with gradients where all rewards have them
    memory   what the method keeps between steps
    ranks    the processes among which the prompts are shared
    """

    plan: Plan
    prompts: tuple[str, ...]
    cond: Conditioning
    states: tuple[Tensor, ...]
    logps: tuple[Tensor, ...]
    rewards: Tensor | None = None
    parts: dict[str, Tensor] = field(default_factory=dict)
    part_weights: dict[str, float] = field(default_factory=dict)
    judge: Judge | None = None
    memory: Memory | None = None
    ranks: Ranks = ALONE

    def own(self, per_prompt: int = 1) -> range:
        """What of P per_prompt things, ordered by prompt, belongs to this process."""
        prompts = share(len(self.prompts), self.ranks)
        return range(prompts.start * per_prompt, prompts.stop * per_prompt)

    def of_own(self, values: Tensor) -> Tensor:
        """The rows of this process's prompts, of a tensor [P, ...]."""
        own = self.own()
        return values[own.start : own.stop]


@dataclass(frozen=True)
class Credit:
    """advantages and keep: T tensors [P, W_{t+1}] (of the edge into each node); values: T+1 tensors [P, W_t]."""

    advantages: tuple[Tensor, ...]
    keep: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


@dataclass(frozen=True)
class Loss:
    """One share of the loss: the loop calls backward on value, and steps the optimizer where update is set.

    value is this process's part of a sum over all processes, divided by what all of them have; without gradient where
    it has nothing of an update. metrics are means over `count` things of this process.
    """

    value: Tensor
    metrics: dict[str, float]
    update: bool = False
    count: int = 1


@dataclass(frozen=True)
class Cost:
    """Network forwards of training on one prompt's group, with gradient (trained) and without (evaluated), and the
    optimizer steps (updates) of one rollout. Guidance is not counted."""

    trained: int
    evaluated: int
    updates: int


class Method(Protocol):
    """A reinforcement-learning method. Its fields are its hyperparameters.

    keeps_old    the policy must keep "old" weights, which the method moves by `Policy.track_old`
    samples_only it trains on final samples alone, so stored groups serve as well as a rollout
    """

    keeps_old: ClassVar[bool]
    samples_only: ClassVar[bool]

    def remember(self, policy: Policy) -> Memory | None: ...

    def plan(self, step: int, sigmas: Tensor) -> Plan: ...

    def credit(self, rollout: Rollout, step: int) -> Credit: ...

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]: ...

    def training_cost(self, plan: Plan) -> Cost | None:
        """None: one forward with gradient for each parent that credit keeps a noisy edge of."""
        ...
