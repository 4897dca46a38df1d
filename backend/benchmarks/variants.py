"""What is compared: the methods with their searches, and the variants that the studies ask about. One table of data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

TARGET = 0.65
TARGETS = (0.60, 0.65, 0.70)
LONG_TARGET = 0.95
SEARCH_SEED = 100


@dataclass(frozen=True)
class Entrant:
    """A method, by its preset configs/shapes-<method>.yaml.

    rates    learning rates that its search tries, as factors of the preset's
    knob     the other setting that its search tries, and the two values
    claimed  it stands in a claim about training curves, so it is run with more seeds
    """

    method: str
    knob: tuple[str, tuple[Any, Any]]
    claimed: bool = False
    rates: tuple[float, float] = (0.5, 1.0)

    @property
    def preset(self) -> str:
        return f"shapes-{self.method}"

    def candidates(self, learning_rate: float) -> list[tuple[str, ...]]:
        """The overrides of its search, from the preset's learning rate."""
        name, values = self.knob
        return [
            (f"optimizer.learning_rate={rate * learning_rate:g}", f"{name}={value}")
            for value, rate in product(values, self.rates)
        ]


ENTRANTS = (
    Entrant("branchgrpo", ("method.eta", (0.7, 1.0)), claimed=True),
    Entrant("dancegrpo", ("method.eta", (0.7, 1.0)), claimed=True),
    Entrant("flowgrpo", ("method.eta", (0.7, 1.0)), claimed=True),
    Entrant("mixgrpo", ("method.eta", (0.7, 1.0)), claimed=True),
    Entrant("dgpo", ("method.clip_range", (0.01, 0.05)), claimed=True),
    Entrant("vgrpo", ("method.soft_clip", (3.0, 1.0)), claimed=True),
    Entrant("nft", ("method.beta", (1.0, 0.1)), claimed=True),
    Entrant("dpo", ("method.beta", (100.0, 30.0)), claimed=True),
    Entrant("tempflow", ("method.eta", (0.7, 1.0))),
    Entrant("grpoguard", ("method.eta", (0.7, 1.0))),
    Entrant("awm", ("method.weighting", ("ghuber", "t"))),
    Entrant("ddpo", ("method.eta", (0.7, 1.0))),
    Entrant("dpok", ("method.eta", (0.7, 1.0))),
    Entrant("refl", ("method.kl_weight", (0.0, 0.01))),
)


@dataclass(frozen=True)
class Variant:
    """One arm of a study: a method at its search's best, with `overrides` on top.

    stored_groups  groups that the base samples before training (`espalier collect`), which then samples none
    """

    study: str
    name: str
    method: str
    overrides: tuple[str, ...] = ()
    stored_groups: int = 0


STORED = "stored-groups"
DGPO, VGRPO, BRANCH = "dgpo", "vgrpo", "branchgrpo"
PAPER_TREE = ("sampling.steps=20", "prompts.per_step=2")
VARIANTS = (
    *(Variant("leaves", f"leaves-{k**4}", BRANCH, (f"method.branches={k}", "prompts.per_step=2")) for k in (2, 3, 4)),
    Variant("spread", "spread-1", BRANCH, ("method.spread=1.0",)),
    Variant("spread", "spread-2", BRANCH, ("method.spread=2.0",)),
    Variant("spread", "spread-4", BRANCH, ("method.spread=4.0",)),
    Variant("spread", "spread-8", BRANCH, ("method.spread=8.0",)),
    Variant("splits", "splits-dense", BRANCH, (*PAPER_TREE, "method.split_steps=[0,3,6,9]")),
    Variant("splits", "splits-mixed", BRANCH, (*PAPER_TREE, "method.split_steps=[0,4,8,12]")),
    Variant("splits", "splits-sparse", BRANCH, (*PAPER_TREE, "method.split_steps=[0,5,10,15]")),
    Variant("splits", "splits-late", BRANCH, (*PAPER_TREE, "method.split_steps=[9,12,15,18]")),
    Variant("fusion", "fusion-path", BRANCH, ("method.fusion_beta=1.0",)),
    Variant("fusion", "fusion-mean", BRANCH, ("method.fusion_beta=0.0",)),
    Variant("pruning", "pruning-none", BRANCH, ("method.pruning={kind: none}",)),
    Variant("pruning", "pruning-depth", BRANCH, ("method.pruning={kind: depth, width: 2}",)),
    Variant("pruning", "pruning-parent-top1", BRANCH, ("method.pruning={kind: parent_top1}",)),
    Variant("dgpo", "dgpo-ode", DGPO),
    Variant("dgpo", "dgpo-sde", DGPO, ("method.solver=sde",)),
    Variant("dgpo", "dgpo-all-timesteps", DGPO, ("method.t_min=0.0",)),
    Variant("dgpo", "dgpo-offline", DGPO, (f"groups={STORED}",), stored_groups=400),
    Variant("vgrpo", "vgrpo-x0", VGRPO, ("method.prediction=x0",)),
    Variant("vgrpo", "vgrpo-v", VGRPO, ("method.prediction=v",)),
    Variant("vgrpo", "vgrpo-eps", VGRPO, ("method.prediction=eps",)),
    Variant("vgrpo", "vgrpo-own-pairs", VGRPO, ("method.shared_pairs=false",)),
    Variant("vgrpo", "vgrpo-any-level", VGRPO, ("method.stratified=false",)),
    Variant("vgrpo", "vgrpo-plain-errors", VGRPO, ("method.adaptive=false",)),
)

_TREE_16 = ("sampling.steps=20", "prompts.per_step=1", "method.split_steps=[0,3,6,9]")
_FLAT_16 = ("sampling.steps=20", "prompts.per_step=1", "method.group_size=16")
ITERATIONS = (
    Variant("iteration", "dancegrpo, fraction 1.0", "dancegrpo", (*_FLAT_16, "method.timestep_fraction=1.0")),
    Variant("iteration", "dancegrpo, fraction 0.6", "dancegrpo", (*_FLAT_16, "method.timestep_fraction=0.6")),
    Variant("iteration", "mixgrpo, window 5", "mixgrpo", (*_FLAT_16, "method.window=5")),
    Variant("iteration", "branchgrpo", BRANCH, _TREE_16),
    Variant("iteration", "branchgrpo, width pruning", BRANCH, (*_TREE_16, "method.pruning={kind: parent_top1}")),
    Variant("iteration", "branchgrpo, depth pruning", BRANCH, (*_TREE_16, "method.pruning={kind: depth}")),
    Variant("iteration", "branchgrpo-mix", BRANCH, (*_TREE_16, "method.mix={window: 4}")),
    Variant(
        "iteration", "dancegrpo, 81 samples", "dancegrpo",
        (*_FLAT_16, "method.timestep_fraction=1.0", "method.group_size=81"),
    ),
    Variant("iteration", "branchgrpo, 81 leaves", BRANCH, (*_TREE_16, "method.branches=3")),
)  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """How much is measured. Seconds are of training steps, one thread each, by the processor's clock.

    search_seconds  None skips the search: every method runs as its preset says
    long_seconds    None skips the long run
    rounds          of the `iteration` part
    num_samples     of each set of the `distribution` part
    subset          held-out prompts of the evaluations on the way
    points          evaluations on the way
    """

    name: str
    search_seconds: float | None
    main_seconds: float
    claimed_seeds: int
    other_seeds: int
    study_seconds: float
    study_seeds: int
    long_seconds: float | None
    rounds: int
    num_samples: int
    subset: int = 150
    points: int = 14


FULL = Profile("full", 60, 300, 3, 1, 120, 2, 2400, 12, 4096)
QUICK = Profile("quick", None, 60, 1, 1, 15, 1, None, 3, 512, subset=60, points=4)
