"""Which pairs to judge, in which order: balanced from any place on, however far the reviewers come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from backend.preferences.bradley_terry import chance, fit, win_counts
from backend.preferences.judgement import Judgement, first_views

_Edge = tuple[int, int]


@dataclass(frozen=True)
class Scheduled:
    """One pair to judge: two models on the same prompt and noise seed, or one model on two seeds of a prompt.

    seed_b     of B's noise, where it is another one than A's
    repeat_of  place in the schedule of the pair that this one shows again, always an earlier one; None: a first view
    flipped    of a repeat: the sides are to be opposite to those of the reviewer's first view, else the same
    """

    prompt: int
    seed: int
    model_a: str
    model_b: str
    repeat_of: int | None = None
    flipped: bool = False
    seed_b: int | None = None


def schedule(
    models: Sequence[str], prompts: Sequence[int], seeds: Sequence[int], repeats: float, rng: np.random.Generator
) -> list[Scheduled]:
    """Every two of the models on every prompt and seed once, then a share `repeats` of these again.

    Any beginning of the list may be used alone. A sweep is M (M - 1) / 2 first views, each two of M models once:
    - M first views connect all models;
    - the prompts that two models have met on are met equally often, or once more or less;
    - after each sweep a model has been A as often as B, or once more or less (exactly as often where M is odd);
    - a repeat comes after its first view, about 1 / repeats pairs later; every second repeat is flipped.

    repeats is 0, or between 0.05 and 0.1. Equal arguments and generator states give equal lists.
    Raises ValueError for fewer than two models, for anything named twice, and for an empty list.
    """
    _check(models, prompts, seeds, repeats)
    views = _first_views(models, prompts, seeds, rng)
    return _with_repeats(views, round(repeats * len(views)), rng)


def schedule_seeds(
    model: str, seeds: Mapping[int, Sequence[int]], repeats: float, rng: np.random.Generator
) -> list[Scheduled]:
    """Every two noise seeds of one model on each prompt once, then a share `repeats` of these again.

    seeds: of each prompt, at least two. Where prompts have equally many, the rules of `schedule` hold with the first
    seed, the second one and so on in place of models: any beginning is balanced over prompts, seeds, and A and B.
    Raises ValueError where no prompt has two seeds, or repeats is no such share.
    """
    places = range(max(map(len, seeds.values()), default=0))
    prompts = [prompt for prompt, own in seeds.items() if len(own) > 1]
    if not prompts:
        raise ValueError("seeds: no prompt has two of them; sample prompts with two noises or more")
    _check([str(place) for place in places], prompts, [0], repeats)
    views = []
    for view in _first_views([str(place) for place in places], prompts, [0], rng):
        own, a, b = seeds[view.prompt], int(view.model_a), int(view.model_b)
        if max(a, b) < len(own):
            views.append(Scheduled(view.prompt, own[a], model, model, seed_b=own[b]))
    return _with_repeats(views, round(repeats * len(views)), rng)


def _first_views(
    models: Sequence[str], prompts: Sequence[int], seeds: Sequence[int], rng: np.random.Generator
) -> list[Scheduled]:
    edges = _edges(len(models))
    order = [models[i] for i in rng.permutation(len(models))]
    laid_out = [prompts[i] for i in rng.permutation(len(prompts))]
    items = [(prompt, seeds[(i + lap) % len(seeds)]) for lap in range(len(seeds)) for i, prompt in enumerate(laid_out)]
    stride = max(1, len(prompts) // len(edges))
    views = []
    for sweep in range(len(items)):
        for place, edge in enumerate(edges):
            a, b = _oriented(edge, len(models))
            if sweep % 2:
                a, b = b, a
            views.append(Scheduled(*items[(sweep + place * stride) % len(items)], order[a], order[b]))
    return views


def _check(models: Sequence[str], prompts: Sequence[int], seeds: Sequence[int], repeats: float) -> None:
    if len(models) < 2:
        raise ValueError(f"models: {len(models)} given; name at least two to compare")
    for name, values in (("models", models), ("prompts", prompts), ("seeds", seeds)):
        if not values:
            raise ValueError(f"{name}: none given; name at least one")
        if len(set(values)) < len(values):
            raise ValueError(f"{name}: some are named twice in {list(values)[:20]}; name each once")
    if repeats and not 0.05 <= repeats <= 0.1:
        raise ValueError(f"repeats: {repeats} is not a share between 0.05 and 0.1; use such a share, or 0 for none")


def _edges(num_models: int) -> list[_Edge]:
    """All i < j, in the rounds of the circle method for tournaments.

    Each round has every model once at most, and two rounds that follow each other form one path through all models.
    """
    seats = num_models + num_models % 2
    ring = list(range(1, seats))
    edges = []
    for turn in range(seats - 1):
        table = [0, *ring[turn:], *ring[:turn]]
        met = [(table[i], table[seats - 1 - i]) for i in range(seats // 2)]
        edges += [(min(two), max(two)) for two in met if max(two) < num_models]
    return edges


def _oriented(edge: _Edge, num_models: int) -> _Edge:
    """A and B such that over all edges each model is A as often as B, or once more or less where M is even."""
    low, high = edge
    return (low, high) if high - low <= num_models // 2 else (high, low)


def _with_repeats(views: list[Scheduled], count: int, rng: np.random.Generator) -> list[Scheduled]:
    """One pair of each of `count` stretches comes again at the end of the stretch that follows."""
    parity = int(rng.integers(2))
    placed: list[Scheduled] = []
    again: Scheduled | None = None
    for number, stretch in enumerate(np.array_split(np.arange(len(views)), count + 1)):
        start = len(placed)
        placed += [views[i] for i in stretch]
        pick = int(rng.integers(start, len(placed)))
        if again is not None:
            placed.append(again)
        again = replace(placed[pick], repeat_of=pick, flipped=(number + parity) % 2 == 0)
    return placed


class TwoModels(Protocol):
    """Anything that compares two models: a Scheduled, a row."""

    @property
    def model_a(self) -> str: ...

    @property
    def model_b(self) -> str: ...


def uncertain_first(pairs: Sequence[TwoModels], judgements: Sequence[Judgement], count: int | None = None) -> list[int]:
    """Places in `pairs` of the `count` (all, if None) to judge next, the most informative first.

    Greedy D-optimal design for the Bradley-Terry ratings that the judgements give: each next pair adds most to the log
    determinant of their information, log(1 + p (1 - p) Var(theta_i - theta_j)), given those before it; so models of
    like strength that have met seldom go first. Half a win for each side between all models stands in for votes that
    are not there yet. Between pairs of the same two models the given order stays. `pairs` are first views that are
    open, in the order of `schedule`; repeats among the judgements count for nothing.
    """
    seen = first_views(judgements)
    models = sorted({key for one in [*pairs, *seen] for key in (one.model_a, one.model_b)})
    wins = win_counts(seen, models).sum(0) + (1 - np.eye(len(models))) / 2
    expected = chance(fit(wins))
    information = expected * (1 - expected)
    weight = (wins + wins.T) * information
    variance = np.linalg.pinv(np.diag(weight.sum(1)) - weight, hermitian=True)

    waiting: dict[_Edge, list[int]] = {}
    for place, pair in enumerate(pairs):
        low, high = sorted((models.index(pair.model_a), models.index(pair.model_b)))
        waiting.setdefault((low, high), []).append(place)
    for places in waiting.values():
        places.reverse()

    def gain(edge: _Edge) -> float:
        i, j = edge
        return float(information[edge] * (variance[i, i] + variance[j, j] - 2 * variance[edge]))

    chosen: list[int] = []
    while waiting and (count is None or len(chosen) < count):
        # rounded, so that equal gains leave the order of the schedule
        best = max(waiting, key=lambda edge: (round(gain(edge), 9), -waiting[edge][-1]))
        toward = variance[:, best[0]] - variance[:, best[1]]
        variance = variance - information[best] / (1 + gain(best)) * np.outer(toward, toward)
        chosen.append(waiting[best].pop())
        if not waiting[best]:
            del waiting[best]
    return chosen
