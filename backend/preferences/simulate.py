"""Reviewers with known truth, to check the statistics by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from backend.preferences.bradley_terry import BASE, ELO, Array, fit
from backend.preferences.judgement import Choice, Judgement
from backend.preferences.schedule import Scheduled


@dataclass(frozen=True)
class Simulated:
    """A reviewer who calls a tie at a rate, else answers at random at a rate, else follows their preference.

    left   probability of the left one where they answer at random
    """

    name: str
    ties: float = 0.0
    error: float = 0.0
    left: float = 0.5


@dataclass(frozen=True)
class World:
    """What is true: ratings by model (Elo), and how much a model's strength varies by prompt (Elo, std).

    On a prompt, P(i preferred to j) = 1 / (1 + exp(-d)), d = theta_i - theta_j + u_i - u_j, u ~ Normal(0, spread).
    u is drawn once for each prompt and model: all votes on the prompt share it.
    """

    ratings: Mapping[str, float]
    spread: float = 0.0


def simulate(
    world: World,
    pairs: Sequence[Scheduled],
    reviewers: Sequence[Simulated],
    votes_a_pair: int,
    rng: np.random.Generator,
) -> list[Judgement]:
    """Each pair judged by `votes_a_pair` different reviewers, in turn; a repeat by those of its first view.

    A repeat shows the sides of the first view, or the opposite ones where it is flipped; the answer is drawn anew.
    """
    strength: dict[tuple[int, str], float] = {}
    sides: dict[tuple[int, str], bool] = {}
    judgements = []
    for place, pair in enumerate(pairs):
        first = place if pair.repeat_of is None else pair.repeat_of
        for model in (pair.model_a, pair.model_b):
            if (pair.prompt, model) not in strength:
                strength[pair.prompt, model] = (world.ratings[model] + world.spread * rng.standard_normal()) / ELO
        gap = strength[pair.prompt, pair.model_a] - strength[pair.prompt, pair.model_b]
        for turn in range(votes_a_pair):
            reviewer = reviewers[(first * votes_a_pair + turn) % len(reviewers)]
            if pair.repeat_of is None:
                sides[place, reviewer.name] = bool(rng.integers(2))
            a_was_left = sides[first, reviewer.name] != pair.flipped
            judgements.append(
                Judgement(
                    pair=str(place),
                    prompt=str(pair.prompt),
                    model_a=pair.model_a,
                    model_b=pair.model_b,
                    choice=_answer(reviewer, gap, a_was_left, rng),
                    reviewer=reviewer.name,
                    a_was_left=a_was_left,
                    repeat_of=None if pair.repeat_of is None else str(pair.repeat_of),
                )
            )
    return judgements


def _answer(reviewer: Simulated, gap: float, a_was_left: bool, rng: np.random.Generator) -> Choice:
    tie, error, which = rng.random(3)
    if tie < reviewer.ties:
        return "tie"
    if error < reviewer.error:
        return "a" if (which < reviewer.left) == a_was_left else "b"
    return "a" if which < 1 / (1 + np.exp(-gap)) else "b"


def expected_score(world: World, model: str, other: str, reviewer: Simulated) -> float:
    """Expected score of the first against the second over prompts and votes (a tie is half)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    gaps = (world.ratings[model] - world.ratings[other] + np.sqrt(2) * world.spread * nodes) / ELO
    follows = float(weights @ (1 / (1 + np.exp(-gaps))) / weights.sum())
    return reviewer.ties / 2 + (1 - reviewer.ties) * (reviewer.error / 2 + (1 - reviewer.error) * follows)


def true_elo(world: World, base: str, reviewer: Simulated) -> dict[str, float]:
    """The ratings that endlessly many votes of such reviewers on all pairs would give.

    Ties, errors and the spread between prompts bring win rates nearer to a half, so these are nearer than the world's.
    """
    models = list(world.ratings)
    wins: Array = np.array([[0.0 if i == j else expected_score(world, i, j, reviewer) for j in models] for i in models])
    theta = fit(wins)
    return {key: BASE + ELO * (theta[i] - theta[models.index(base)]) for i, key in enumerate(models)}
