"""Ratings from comparisons: Bradley and Terry (1952), ties as half wins, intervals by a bootstrap over prompts.

Shape legend
    M models, Q prompts, B resamples. wins[..., i, j] is how often i beat j, a tie counts half for both.

    P(i beats j) = 1 / (1 + exp(theta_j - theta_i)), Elo = 1000 + 400 / ln 10 * (theta - theta_base)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from backend.preferences.judgement import Judgement
from backend.preferences.standing_record import Estimate
from backend.preferences.wilson import LEVEL

Array = NDArray[np.float64]

ELO = 400 / np.log(10)
BASE = 1000.0
RESAMPLES = 1000
PROMPTS_AT_ONCE = 1000


def win_counts(judgements: Sequence[Judgement], models: Sequence[str]) -> Array:
    """Wins [Q, M, M] by prompt. Raises ValueError for a model that is not listed."""
    place = {key: i for i, key in enumerate(models)}
    prompts = {prompt: i for i, prompt in enumerate(dict.fromkeys(one.prompt for one in judgements))}
    wins = np.zeros((len(prompts), len(models), len(models)))
    for one in judgements:
        for key in (one.model_a, one.model_b):
            if key not in place:
                raise ValueError(f"models: {key!r} was judged but is not among {', '.join(models)}; list it")
        a, b, prompt = place[one.model_a], place[one.model_b], prompts[one.prompt]
        wins[prompt, a, b] += one.score_of_a
        wins[prompt, b, a] += 1 - one.score_of_a
    return wins


def fit(wins: Array) -> Array:
    """theta [..., M] that maximises the log-likelihood of wins [..., M, M]; only differences mean something.

    Where two models have met, both need a win, however small, or the maximum is at infinity. Newton's method on a
    concave function; the damping keeps unconnected models solvable, and steps are at most 1.
    """
    met = wins + np.swapaxes(wins, -1, -2)
    diagonal = np.eye(wins.shape[-1])
    theta = np.zeros(wins.shape[:-1])
    for _ in range(200):
        expected = chance(theta)
        slope = (wins - met * expected).sum(-1)
        if (np.abs(slope) <= 1e-10 * (1 + met.sum(-1))).all():
            return theta
        weight = met * expected * (1 - expected)
        curvature = (weight.sum(-1) + 1e-9 * (1 + met.sum(-1)))[..., None] * diagonal - weight
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        theta = theta + np.clip(step, -1, 1)
    raise AssertionError("Newton's method did not converge on a concave likelihood")


def chance(theta: Array) -> Array:
    """[..., M, M]: the probability that i beats j."""
    return 1 / (1 + np.exp(theta[..., None, :] - theta[..., :, None]))


@dataclass(frozen=True)
class Ratings:
    """Elo of each model, the base at 1000, and of each resample of the prompts.

    models     M keys
    elo        float64 [M]
    resampled  float64 [B, M]
    connected  bool [M]: a chain of comparisons leads to the base; ratings of the others mean nothing
    """

    models: tuple[str, ...]
    elo: Array
    resampled: Array
    connected: NDArray[np.bool_]

    def rating(self, model: str) -> Estimate | None:
        """None where the model is not connected with the base."""
        at = self.models.index(model)
        return _estimate(self.elo[at], self.resampled[:, at]) if self.connected[at] else None

    def difference(self, model: str, other: str) -> Estimate | None:
        """Rating of the first minus that of the second, resampled together; None where one has no rating."""
        at, to = self.models.index(model), self.models.index(other)
        if not (self.connected[at] and self.connected[to]):
            return None
        return _estimate(self.elo[at] - self.elo[to], self.resampled[:, at] - self.resampled[:, to])


def _estimate(value: float, resampled: Array) -> Estimate:
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=value, low=low, high=high)


def rate(judgements: Sequence[Judgement], models: Sequence[str], base: str, rng: np.random.Generator) -> Ratings:
    """Bradley-Terry ratings of all models, and `RESAMPLES` draws of them by the Bayesian bootstrap (Rubin 1981).

    Each draw weighs whole prompts by Exp(1), since votes on one prompt depend on each other. Every two models that have
    met get half a prompt's votes more for each side, in a draw weighed by Gamma(1/2): with one vote a prompt and two
    models the draws are those of Jeffreys' posterior, Beta(wins + 1/2, losses + 1/2). So a model that never lost keeps
    a finite rating and an interval that is not a point.

    Raises ValueError where the base is not among the models, or a judged model is not.
    """
    if base not in models:
        raise ValueError(f"base: {base!r} is not among {', '.join(models)}; name one of them")
    at = list(models).index(base)
    wins = win_counts(judgements, models)
    total = wins.sum(0)
    met = wins + wins.transpose(0, 2, 1)
    votes_a_prompt = met.sum(0) / np.maximum((met > 0).sum(0), 1)

    resampled = rng.standard_gamma(0.5, (RESAMPLES, *total.shape)) * votes_a_prompt
    for start in range(0, len(wins), PROMPTS_AT_ONCE):
        part = wins[start : start + PROMPTS_AT_ONCE]
        resampled += np.tensordot(rng.standard_exponential((RESAMPLES, len(part))), part, axes=1)
    label = connected_components(met.sum(0), directed=False)[1]
    return Ratings(
        tuple(models),
        elo=_elo(fit(total + votes_a_prompt / 2), at),
        resampled=_elo(fit(resampled), at),
        connected=label == label[at],
    )


def _elo(theta: Array, base: int) -> Array:
    return BASE + ELO * (theta - theta[..., base, None])
