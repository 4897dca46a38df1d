"""Whose votes deserve a look: reviewers who answer unlike all others, or by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from backend.preferences.agreement import answers_by_pair, self_agreement, sides
from backend.preferences.judgement import Judgement, first_views
from backend.preferences.standing_record import ReviewerStanding, Sides
from backend.preferences.wilson import SIGNIFICANT


@dataclass(frozen=True)
class _Matches:
    """Between R reviewers. equal, compared: [R, R], counts of equal answers and of pairs both judged; shared: [R]."""

    equal: NDArray[np.float64]
    compared: NDArray[np.float64]
    shared: NDArray[np.intp]

    def own(self, at: int) -> float | None:
        """Share of the others' answers that are equal to those of one."""
        count = self.compared[at].sum()
        return float(self.equal[at].sum() / count) if count else None

    def without(self, at: int) -> float | None:
        """The same share among all others."""
        count = self.compared.sum() - 2 * self.compared[at].sum()
        return float((self.equal.sum() - 2 * self.equal[at].sum()) / count) if count else None


def reviewers(judgements: Sequence[Judgement]) -> list[ReviewerStanding]:
    """Each reviewer, by name, with the reasons to look at their votes.

    Two exact tests, at 0.05 over the number of reviewers: the share of the others' answers that are equal to theirs is
    lower than among the others, each shared pair being one trial; the left one was chosen too often or too seldom.
    """
    by_reviewer: dict[str, list[Judgement]] = defaultdict(list)
    for one in judgements:
        by_reviewer[one.reviewer].append(one)
    names = sorted(by_reviewer)
    matches = _matches(judgements, names)
    return [
        ReviewerStanding(
            reviewer=name,
            votes=len(first_views(by_reviewer[name])),
            agreement=matches.own(at),
            shared_pairs=int(matches.shared[at]),
            sides=(chosen := sides(by_reviewer[name])),
            self_agreement=self_agreement(by_reviewer[name]),
            reasons=_reasons(matches, at, chosen, SIGNIFICANT / len(names)),
        )
        for at, name in enumerate(names)
    ]


def _matches(judgements: Sequence[Judgement], names: Sequence[str]) -> _Matches:
    place = {name: at for at, name in enumerate(names)}
    equal, compared = np.zeros((2, len(names), len(names)))
    shared = np.zeros(len(names), dtype=np.intp)
    for given in answers_by_pair(judgements).values():
        if len(given) < 2:
            continue
        who = [place[name] for name in given]
        answers = np.array(list(given.values()))
        both = np.ix_(who, who)
        equal[both] += answers[:, None] == answers[None, :]
        compared[both] += 1
        shared[who] += 1
    np.fill_diagonal(equal, 0)
    np.fill_diagonal(compared, 0)
    return _Matches(equal, compared, shared)


def _reasons(matches: _Matches, at: int, chosen: Sides, limit: float) -> list[str]:
    reasons = []
    own, others, trials = matches.own(at), matches.without(at), int(matches.shared[at])
    if own is not None and others is not None and binomtest(round(own * trials), trials, others, "less").pvalue < limit:
        reasons.append(f"agrees with the others in {own:.0%} of answers, these among themselves in {others:.0%}")
    if chosen.share is not None and chosen.p_value is not None and chosen.p_value < limit:
        reasons.append(f"chose the left side in {chosen.share.value:.0%} of {chosen.decided} votes")
    return reasons
