"""What the votes say about each model, and about each two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from backend.preferences.bradley_terry import Ratings
from backend.preferences.judgement import Judgement
from backend.preferences.reward_agreement import PairScores
from backend.preferences.sign_flip import sign_flip
from backend.preferences.standing_record import Comparison, Estimate, ModelStanding, Outcomes
from backend.preferences.wilson import SIGNIFICANT, clustered_share


@dataclass(frozen=True)
class Model:
    """A model of a review set. key: what judgements name; run, step: where it comes from, None for others."""

    key: str
    label: str
    run: str | None = None
    step: int | None = None


def comparisons(votes: Sequence[Judgement], models: Sequence[Model], ratings: Ratings) -> list[Comparison]:
    """Each two models with votes between them, in the order of `models`; votes: first views on one aspect."""
    between: dict[frozenset[str], list[Judgement]] = defaultdict(list)
    for one in votes:
        between[frozenset((one.model_a, one.model_b))].append(one)
    found = []
    for model, other in combinations([model.key for model in models], 2):
        shared = between[frozenset((model, other))]
        rate = _win_rate(shared, model)
        if rate is None:
            continue
        difference = ratings.difference(model, other)
        differs = difference is not None and not difference.low <= 0 <= difference.high
        p_value = sign_flip(_net_votes(shared, model))
        found.append(
            Comparison(
                model_a=model,
                model_b=other,
                outcomes=outcomes(shared, model),
                prompts=len({one.prompt for one in shared}),
                win_rate=rate,
                difference=difference,
                p_value=p_value,
                decided=differs and p_value <= SIGNIFICANT,
            )
        )
    return found


def model_standings(
    votes: Sequence[Judgement],
    models: Sequence[Model],
    base: str,
    ratings: Ratings,
    compared: Sequence[Comparison],
    scores: Mapping[str, PairScores],
) -> list[ModelStanding]:
    """Highest rating first, those without one last. votes: first views on one aspect."""
    rated = {model.key: ratings.rating(model.key) for model in models}
    undecided = {frozenset((one.model_a, one.model_b)) for one in compared if not one.decided}
    means = _mean_scores(votes, scores)
    standings = []
    for model in models:
        own = [one for one in votes if model.key in (one.model_a, one.model_b)]
        against_base = [one for one in own if base in (one.model_a, one.model_b)] if model.key != base else []
        best, worst = _ranks(model.key, rated, undecided)
        standings.append(
            ModelStanding(
                key=model.key,
                label=model.label,
                run=model.run,
                step=model.step,
                rating=rated[model.key],
                rank=best if best == worst else None,
                rank_best=best,
                rank_worst=worst,
                outcomes=outcomes(own, model.key),
                win_rate=_win_rate(own, model.key),
                over_base=_win_rate(against_base, model.key),
                prompts=len({one.prompt for one in own}),
                mean_scores=means.get(model.key, {}),
            )
        )
    return sorted(standings, key=lambda one: -np.inf if one.rating is None else one.rating.value, reverse=True)


def outcomes(votes: Sequence[Judgement], model: str) -> Outcomes:
    """Counts of votes from the side of one model, which all of them are about."""
    return Outcomes(
        wins=sum(one.better == model for one in votes),
        losses=sum(one.better not in (model, None) for one in votes),
        ties=sum(one.choice == "tie" for one in votes),
        both_bad=sum(one.choice == "both_bad" for one in votes),
    )


def _win_rate(votes: Sequence[Judgement], model: str) -> Estimate | None:
    scores = [one.score_of_a if one.model_a == model else 1 - one.score_of_a for one in votes]
    return clustered_share(scores, [one.prompt for one in votes])


def _net_votes(votes: Sequence[Judgement], model: str) -> list[int]:
    """Votes for the model minus votes against it, by prompt."""
    net: dict[str, int] = defaultdict(int)
    for one in votes:
        net[one.prompt] += 0 if one.better is None else 1 if one.better == model else -1
    return list(net.values())


def _ranks(
    model: str, rated: Mapping[str, Estimate | None], undecided: Set[frozenset[str]]
) -> tuple[int | None, int | None]:
    """Best and worst rank that the intervals allow, where at least two have one."""
    own = rated[model]
    known = {key: rating for key, rating in rated.items() if rating is not None}
    if own is None or len(known) < 2:
        return None, None
    apart = [rating for key, rating in known.items() if frozenset((key, model)) not in undecided]
    above = sum(rating.low > own.high for rating in apart)
    below = sum(rating.high < own.low for rating in apart)
    return 1 + above, len(known) - below


def _mean_scores(votes: Sequence[Judgement], scores: Mapping[str, PairScores]) -> dict[str, dict[str, float]]:
    """Model -> reward -> mean over judged pairs, each once."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in {one.pair: one for one in votes if one.pair in scores}.values():
        for model, found in ((one.model_a, scores[one.pair].a), (one.model_b, scores[one.pair].b)):
            for name, value in found.items():
                values[model][name].append(value)
    return {model: {name: float(np.mean(one)) for name, one in found.items()} for model, found in values.items()}
