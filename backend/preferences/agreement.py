"""How far reviewers agree with each other and with themselves, and whether sides matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from backend.preferences.judgement import Judgement, first_views
from backend.preferences.standing_record import SelfAgreement, Sides
from backend.preferences.wilson import share

_ANSWERS = (0.0, 0.5, 1.0)


def answers_by_pair(judgements: Sequence[Judgement]) -> dict[str, dict[str, float]]:
    """Pair -> reviewer -> score of a, of first views."""
    answers: dict[str, dict[str, float]] = defaultdict(dict)
    for one in first_views(judgements):
        answers[one.pair][one.reviewer] = one.score_of_a
    return dict(answers)


def alpha(judgements: Sequence[Judgement]) -> float | None:
    """Krippendorff's alpha, nominal, pairs as units: 1 is full agreement, 0 what chance gives.

    The answers are "a", "b" and neither, as the ratings see them. Sides a and b are balanced between the models, so
    that one model winning everywhere is agreement, not a lack of variety. None where no pair has two answers, or all
    answers are equal.
    """
    counts = [
        [list(given.values()).count(answer) for answer in _ANSWERS] for given in answers_by_pair(judgements).values()
    ]
    return nominal_alpha(np.array(counts, dtype=np.float64).reshape(-1, len(_ANSWERS)))


def nominal_alpha(counts: NDArray[np.float64]) -> float | None:
    """alpha = 1 - D_observed / D_expected (Krippendorff 2011, section B); None where undefined.

    counts [N, V]: how often each of V values was given to each of N units; units with one value or none are left out.
    The observed disagreement is the share of unequal values among those paired within a unit, each unit weighing as
    many as it has values; the expected one is the share among all pairs of values.
    """
    counts = counts[counts.sum(1) > 1]
    by_unit, by_value = counts.sum(1), counts.sum(0)
    total = by_value.sum()
    unequal = total**2 - (by_value**2).sum()
    if unequal == 0:
        return None
    observed = float(((by_unit**2 - (counts**2).sum(1)) / (by_unit - 1)).sum()) / total
    return float(1 - observed * total * (total - 1) / unequal)


def sides(judgements: Sequence[Judgement]) -> Sides:
    """Of first views: sides of repeats are not drawn but follow from these."""
    chosen = [one.chose_left for one in first_views(judgements) if one.chose_left is not None]
    left = sum(chosen)
    return Sides(
        left=left,
        decided=len(chosen),
        share=share(left, len(chosen)),
        p_value=float(binomtest(left, len(chosen)).pvalue) if chosen else None,
    )


def self_agreement(judgements: Sequence[Judgement]) -> SelfAgreement:
    """Repeats against the first view by the same reviewer; repeats without one are left out.

    Answers are equal where they call the same sample better, or none. Sides are flipped where the other one is left.
    """
    seen = {(one.reviewer, one.pair): one for one in first_views(judgements)}
    equal: dict[bool, list[bool]] = {True: [], False: []}
    for one in judgements:
        first = seen.get((one.reviewer, one.repeat_of)) if one.repeat_of is not None else None
        if first is not None:
            # a repeat may name the two models the other way round
            as_first = one.model_a == first.model_a
            score = one.score_of_a if as_first else 1 - one.score_of_a
            equal[(one.a_was_left == as_first) == first.a_was_left].append(score == first.score_of_a)
    every = equal[True] + equal[False]
    return SelfAgreement(
        repeats=len(every),
        share=share(sum(every), len(every)),
        same_sides=share(sum(equal[True]), len(equal[True])),
        flipped_sides=share(sum(equal[False]), len(equal[False])),
    )
