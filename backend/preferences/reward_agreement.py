"""How well rewards agree with people, on the votes that call one of two better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backend.preferences.judgement import Judgement, first_views
from backend.preferences.standing_record import CalibrationBin, Disagreement, RewardAgreement
from backend.preferences.wilson import clustered_share

BINS = 5
VOTES_A_BIN = 10
DISAGREEMENTS = 50


@dataclass(frozen=True)
class PairScores:
    """Rewards of the two samples of a pair, by name; those that were not finite are left out."""

    a: Mapping[str, float]
    b: Mapping[str, float]


def reward_agreement(judgements: Sequence[Judgement], scores: Mapping[str, PairScores]) -> list[RewardAgreement]:
    """One record for each reward that scored both samples of a pair with a vote; by name. scores: by pair."""
    votes = [one for one in first_views(judgements) if one.better is not None and one.pair in scores]
    names = sorted({name for one in votes for name in scores[one.pair].a.keys() & scores[one.pair].b.keys()})
    return [_of_reward(name, votes, scores) for name in names]


def _of_reward(name: str, votes: Sequence[Judgement], scores: Mapping[str, PairScores]) -> RewardAgreement:
    """Accuracy's interval treats votes on one prompt as dependent."""
    scored = [one for one in votes if name in scores[one.pair].a and name in scores[one.pair].b]
    gaps = np.array([scores[one.pair].a[name] - scores[one.pair].b[name] for one in scored])
    for_a = np.array([one.choice == "a" for one in scored])
    agree = np.where(gaps == 0, 0.5, (gaps > 0) == for_a)
    prompts = np.array([one.prompt for one in scored])
    accuracy = clustered_share(agree.tolist(), prompts.tolist())
    assert accuracy is not None
    return RewardAgreement(
        reward=name,
        accuracy=accuracy,
        pairs=len({one.pair for one in scored}),
        votes=len(scored),
        calibration=_calibration(np.abs(gaps), agree, prompts),
        disagreements=_disagreements(name, scored, scores),
    )


def _calibration(
    gaps: NDArray[np.float64], agree: NDArray[np.float64], prompts: NDArray[np.str_]
) -> list[CalibrationBin]:
    """Bins of the gap with about equally many votes, at most 5, and 10 votes in each unless there are fewer in all."""
    order = np.argsort(gaps, kind="stable")
    bins = []
    for part in np.array_split(order, min(BINS, max(1, len(order) // VOTES_A_BIN))):
        estimate = clustered_share(agree[part].tolist(), prompts[part].tolist())
        assert estimate is not None
        bins.append(CalibrationBin(low_gap=gaps[part[0]], high_gap=gaps[part[-1]], votes=len(part), agree=estimate))
    return bins


def _disagreements(name: str, votes: Sequence[Judgement], scores: Mapping[str, PairScores]) -> list[Disagreement]:
    for_a = Counter(one.pair for one in votes if one.choice == "a")
    for_b = Counter(one.pair for one in votes if one.choice == "b")
    found = [
        Disagreement(
            pair=pair,
            score_a=scores[pair].a[name],
            score_b=scores[pair].b[name],
            votes_a=for_a[pair],
            votes_b=for_b[pair],
        )
        for pair in for_a.keys() | for_b.keys()
        if (scores[pair].a[name] - scores[pair].b[name]) * (for_a[pair] - for_b[pair]) < 0
    ]
    return sorted(found, key=lambda one: (-abs(one.score_a - one.score_b), one.pair))[:DISAGREEMENTS]
