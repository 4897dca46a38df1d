"""All statistics of one review set and aspect, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from backend.preferences.agreement import alpha, answers_by_pair, self_agreement, sides
from backend.preferences.bradley_terry import rate
from backend.preferences.cautions import cautions
from backend.preferences.judgement import Judgement, first_views
from backend.preferences.model_standings import Model, comparisons, model_standings
from backend.preferences.reviewers import reviewers
from backend.preferences.reward_agreement import PairScores, reward_agreement
from backend.preferences.standing_record import Standing


def standing(
    judgements: Sequence[Judgement],
    models: Sequence[Model],
    base: str,
    scores: Mapping[str, PairScores] | None = None,
    aspect: str = "overall",
    seed: int = 0,
) -> Standing:
    """The standing of the models on one aspect.

    judgements of other aspects are left out; scores: by pair, where samples have rewards; seed: of the resampling.
    Judgements of two samples of one model count for reviewers and rewards, and for no model.
    Raises ValueError where the base or a judged model is not among the models.
    """
    asked = [one for one in judgements if one.aspect == aspect]
    votes = first_views(asked)
    between = [one for one in votes if not one.of_one_model]
    ratings = rate(between, [model.key for model in models], base, np.random.default_rng(seed))
    compared = comparisons(between, models, ratings)
    answers = answers_by_pair(votes)
    found = Standing(
        aspect=aspect,
        base=base,
        votes=len(votes),
        of_one_model=len(votes) - len(between),
        pairs=len(answers),
        prompts=len({one.prompt for one in votes}),
        tie_share=sum(one.choice == "tie" for one in votes) / max(1, len(votes)),
        both_bad_share=sum(one.choice == "both_bad" for one in votes) / max(1, len(votes)),
        models=model_standings(between, models, base, ratings, compared, scores or {}),
        comparisons=compared,
        sides=sides(asked),
        self_agreement=self_agreement(asked),
        alpha=alpha(votes),
        alpha_pairs=sum(len(given) > 1 for given in answers.values()),
        reviewers=reviewers(asked),
        rewards=reward_agreement(votes, scores or {}),
        warnings=[],
    )
    return found.model_copy(update={"warnings": cautions(found)})
