"""What is known from the judgements of one review set on one aspect: the record behind the leaderboard.

All intervals are of 95 %. A win counts 1, "tie" and "both bad" half. Repeats count in `self_agreement` alone.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Estimate(Record):
    """A figure and its interval."""

    value: float
    low: float
    high: float


class Outcomes(Record):
    """Votes by outcome, from the side of one model."""

    wins: int = 0
    losses: int = 0
    ties: int = 0
    both_bad: int = 0

    @property
    def votes(self) -> int:
        return self.wins + self.losses + self.ties + self.both_bad


class ModelStanding(Record):
    """One model.

    run, step     where it comes from; step 0 is the base, None is none of a run
    rating        Bradley-Terry on the Elo scale, 1000 is the base; interval from resampled prompts. None: no chain of
                  comparisons leads to the base
    rank_best, rank_worst   1 + how many models are above for certain; how many, with itself, are not below for certain.
                  Certain is what no interval overlaps and no undecided comparison of the two contradicts. None without
                  rating, and where only the base has one
    rank          the two where they are equal, None where intervals overlap so that the rank is not known
    outcomes      of all its votes
    win_rate      against all others; None without votes
    over_base     win rate against the base; None for the base itself and where the two were not compared
    prompts       how many it was judged on
    mean_scores   mean of each reward over its samples in judged pairs
    """

    key: str
    label: str
    run: str | None
    step: int | None
    rating: Estimate | None
    rank: int | None
    rank_best: int | None
    rank_worst: int | None
    outcomes: Outcomes
    win_rate: Estimate | None
    over_base: Estimate | None
    prompts: int
    mean_scores: dict[str, float]


class Comparison(Record):
    """Two models that were judged against each other; all from the side of model_a.

    win_rate      of the votes between the two
    difference    rating of a minus that of b, from all votes; None where a rating is missing
    p_value       exact, of the votes between the two, each prompt's together, if the models were equal
    decided       the interval of the difference excludes 0, and p_value is at most 0.05
    """

    model_a: str
    model_b: str
    outcomes: Outcomes
    prompts: int
    win_rate: Estimate
    difference: Estimate | None
    p_value: float
    decided: bool


class Sides(Record):
    """Among votes that call one better, how many chose the left one.

    p_value: exact, of so uneven a count if sides made no difference (they are drawn by a coin). None without votes.
    """

    left: int
    decided: int
    share: Estimate | None
    p_value: float | None


class SelfAgreement(Record):
    """How often the same reviewer answered a repeat as at first sight.

    share of all repeats; same_sides and flipped_sides of those where the two stood as before, and the other way round.
    A habit of choosing one side shows as a flipped share far below the other. None without such repeats.
    """

    repeats: int
    share: Estimate | None
    same_sides: Estimate | None
    flipped_sides: Estimate | None


class ReviewerStanding(Record):
    """One reviewer.

    agreement     share of the others' answers on the same pairs that are equal to theirs; None where nobody shares one
    shared_pairs  how many pairs that is
    reasons       why their votes deserve a look, as sentences; empty: no reason
    """

    reviewer: str
    votes: int
    agreement: float | None
    shared_pairs: int
    sides: Sides
    self_agreement: SelfAgreement
    reasons: list[str]


class CalibrationBin(Record):
    """Votes that call one better, on pairs whose scores differ by low_gap to high_gap.

    agree is the share that chose the higher score: 0.5 is chance, and it should grow with the gap.
    """

    low_gap: float
    high_gap: float
    votes: int
    agree: Estimate


class Disagreement(Record):
    """A pair whose better sample by the reward is not the better one for most who chose."""

    pair: str
    score_a: float
    score_b: float
    votes_a: int
    votes_b: int


class RewardAgreement(Record):
    """How well one reward agrees with people.

    accuracy      of votes that call one better on scored pairs, the share that chose the higher score (equal: half)
    pairs, votes  that this rests on
    calibration   from small gaps to large, with about equally many votes
    disagreements largest gaps first
    """

    reward: str
    accuracy: Estimate
    pairs: int
    votes: int
    calibration: list[CalibrationBin]
    disagreements: list[Disagreement]


class Standing(Record):
    """All of it.

    models        highest rating first, those without one last
    comparisons   each two models with votes
    votes         first views, as everywhere but in self_agreement
    of_one_model  votes among them that compare two samples of one model; in models and comparisons they do not count
    alpha         Krippendorff's, nominal, over a better / b better / neither; None where no pair has two votes or all
                  answers are equal
    alpha_pairs   pairs with at least two votes
    warnings      sentences for the reader
    """

    aspect: str
    base: str
    votes: int
    of_one_model: int
    pairs: int
    prompts: int
    tie_share: float
    both_bad_share: float
    models: list[ModelStanding]
    comparisons: list[Comparison]
    sides: Sides
    self_agreement: SelfAgreement
    alpha: float | None
    alpha_pairs: int
    reviewers: list[ReviewerStanding]
    rewards: list[RewardAgreement]
    warnings: list[str]
