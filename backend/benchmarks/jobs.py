"""The training runs of a benchmark: which they are, in which order, and which of them are already stored."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from backend.benchmarks.records import Trained, read
from backend.benchmarks.variants import ENTRANTS, SEARCH_SEED, VARIANTS, Entrant, Profile
from backend.config import RunConfig, load, preset_names, preset_path

T = TypeVar("T")
CPU_CLOCK = ("--clock", "cpu")
Picks = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Job:
    """One training run: a preset with overrides and a seed, for so many processor seconds of training steps."""

    part: str
    variant: str
    method: str
    seed: int
    overrides: tuple[str, ...]
    seconds: float
    stored_groups: int = 0

    @property
    def preset(self) -> str:
        return f"shapes-{self.method}"

    @property
    def file(self) -> str:
        return f"{self.part}/{self.variant}-seed{self.seed}.json"

    @cached_property
    def config(self) -> RunConfig:
        """Raises ValueError when the preset does not know one of the overrides."""
        endless = ["steps=1000000", "evaluation.shown=0", "evaluation.seeds=[1]"]
        rare = [f"logging.{name}_every=1000000" for name in ("tree", "samples", "checkpoint")]
        return load(preset_path(self.preset), [*self.overrides, f"seed={self.seed}", *endless, *rare])

    @property
    def fingerprint(self) -> str:
        """Of all that decides the run's weights: how often and on how much it is evaluated does not."""
        data = chosen(self.config, "seed", "model", "method", "rewards", "prompts", "groups", "sampling", "optimizer")
        return fingerprint([data, self.seconds, self.stored_groups, base_digest(self.config.model.folder())])

    @property
    def command(self) -> str:
        """The run alone, as a person would repeat it."""
        settings = [part for one in (*self.overrides, f"seed={self.seed}") for part in ("--set", one)]
        preset = f"configs/{self.preset}.yaml"
        train = ["espalier", "train", preset, "--out", "DIR", "--for", f"{self.seconds:g}", *CPU_CLOCK]
        words = shlex.join([*train, *settings, "--set", "steps=1000000"])
        if not self.stored_groups:
            return words
        return (
            f"{shlex.join(['espalier', 'collect', preset, '--groups', str(self.stored_groups), *settings])} && {words}"
        )


def chosen(config: RunConfig, *parts: str) -> dict[str, object]:
    """What these parts of a config set away from their defaults, so that a setting that is added later changes nothing.

    The names that tell the classes of a union apart are always among it.
    """
    data: dict[str, object] = config.model_dump(mode="json", include=set(parts), exclude_defaults=True)
    kinds = [config.model.family, config.method.name, *(one.name for one in config.rewards), config.model.tuning.kind]
    return {**data, "kinds": kinds}


def fingerprint(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@cache
def base_digest(folder: str) -> str:
    """Of the transformer's weights: another base gives other numbers."""
    weights = Path(folder) / "transformer" / "diffusion_pytorch_model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else folder


def interleave(groups: Iterable[Sequence[T]]) -> list[T]:
    """The first of every group, then the second of every group, and so on: a slow hour hurts all groups alike."""
    missing = object()
    return [one for turn in zip_longest(*groups, fillvalue=missing) for one in turn if one is not missing]  # type: ignore[misc]


def entrants(only: str | None) -> list[Entrant]:
    """The methods that have a preset. Raises ValueError when `only` names none of them."""
    present = [one for one in ENTRANTS if one.preset in preset_names() and only in (None, one.method)]
    if not present:
        known = ", ".join(one.method for one in ENTRANTS if one.preset in preset_names())
        raise ValueError(f"--only: {only!r} is not a method that is compared; choose one of {known}")
    return present


def check_ground(compared: Iterable[Entrant]) -> None:
    """Raises ValueError unless the presets share base, guidance, prompts, denoising steps and evaluation."""
    grounds: dict[str, str] = {}
    for entrant in compared:
        config = load(preset_path(entrant.preset))
        shared = {"base", "guidance", "source", "steps", "evaluation_steps", "shift", "prompts", "tuning"}
        parts = (config.model, config.prompts, config.sampling, config.evaluation)
        found = [part.model_dump(mode="json", include=shared) for part in parts]
        grounds.setdefault(json.dumps(found), entrant.preset)
    if len(grounds) > 1:
        told = "; ".join(f"{preset}: {ground}" for ground, preset in grounds.items())
        raise ValueError(f"presets: methods can be compared on one ground only, and these differ: {told}")


def search_jobs(profile: Profile, only: str | None) -> list[Job]:
    """Equally many short runs of each method, from the same seed; none in a profile without a search."""
    if profile.search_seconds is None:
        return []
    groups = []
    for entrant in entrants(only):
        groups.append(
            [
                Job("search", variant, entrant.method, SEARCH_SEED, overrides, profile.search_seconds)
                for variant, overrides in _candidates(entrant).items()
            ]
        )
    return interleave(groups)


def _candidates(entrant: Entrant) -> dict[str, tuple[str, ...]]:
    """The overrides of its search's runs, by their names."""
    rate = load(preset_path(entrant.preset)).optimizer.learning_rate
    return {f"{entrant.method}-{i}": overrides for i, overrides in enumerate(entrant.candidates(rate), start=1)}


def pick(found: Sequence[Trained], entrant: Entrant) -> tuple[str, ...]:
    """The overrides of the search's best run by final strict accuracy (the first of equals).

    Raises ValueError when the search is not complete, or no run of it survived.
    """
    wanted = _candidates(entrant)
    # by place, not by overrides: a run that is kept may have written the same settings in other words
    runs = [one for one in found if one.part == "search" and one.variant in wanted]
    if len(runs) < len(wanted):
        raise ValueError(
            f"search: {len(runs)} of {len(wanted)} runs of {entrant.method} are there; run `--part search` first"
        )
    best = max(runs, key=lambda one: -1.0 if one.strict is None else one.strict)
    if best.strict is None:
        raise ValueError(f"search: every run of {entrant.method} failed; change its preset or its search")
    return wanted[best.variant]


def picks(found: Sequence[Trained], profile: Profile, only: str | None) -> dict[str, tuple[str, ...]]:
    """The settings of each method from here on: its search's best, or its preset's own without a search."""
    if profile.search_seconds is None:
        return {one.method: () for one in entrants(only)}
    return {one.method: pick(found, one) for one in entrants(only)}


def main_jobs(profile: Profile, picked: Picks, only: str | None) -> list[Job]:
    groups = []
    for entrant in entrants(only):
        seeds = profile.claimed_seeds if entrant.claimed else profile.other_seeds
        groups.append(
            [
                Job("main", entrant.method, entrant.method, seed, picked[entrant.method], profile.main_seconds)
                for seed in range(seeds)
            ]
        )
    return interleave(groups)


def study_jobs(profile: Profile, picked: Picks) -> list[Job]:
    """The arms of the studies take turns; those of one study follow each other."""
    groups = [
        [
            Job(
                "ablations", one.name, one.method, seed, (*picked[one.method], *one.overrides),
                profile.study_seconds, one.stored_groups,
            )
            for seed in range(profile.study_seeds)
        ]
        for one in VARIANTS
        if one.method in picked
    ]  # fmt: skip
    return interleave(groups)


def long_jobs(profile: Profile, found: Sequence[Trained], picked: Picks) -> list[Job]:
    """One run, of the method whose search came farthest."""
    if profile.long_seconds is None:
        return []
    tried = [one for one in found if one.part == "search" and one.method in picked and one.strict is not None]
    best = max(tried, key=lambda one: one.strict or 0.0).method
    return [Job("long", best, best, 0, picked[best], profile.long_seconds)]


def pending(jobs: Sequence[Job], results: Path, redo: bool) -> list[Job]:
    """Jobs whose file is not there. Raises ValueError when files were made with other settings, unless `redo`."""
    left, stale = [], []
    for job in jobs:
        path = results / job.file
        if not path.is_file():
            left.append(job)
        elif read(path).fingerprint != job.fingerprint:
            stale.append(path)
            left.append(job)
    if stale and not redo:
        listed = ", ".join(str(path) for path in stale[:5]) + (" ..." if len(stale) > 5 else "")
        raise ValueError(
            f"{len(stale)} stored runs have other settings, budget or base than this benchmark: {listed}; "
            "add --redo to replace them, or restore the settings"
        )
    return left
