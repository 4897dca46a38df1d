"""Rows of votes as the records that the statistics of judging take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from backend.preferences.judgement import Choice, Judgement
from backend.preferences.standing_record import Standing
from db import reviews, votes
from db.models import ReviewModel, ReviewPair
from db.session import reading
from db.votes import Ballot

if TYPE_CHECKING:
    from backend.preferences.reward_agreement import PairScores


def judgements(ballots: Iterable[Ballot]) -> list[Judgement]:
    """One for each answer, overall and of aspects, that was not skipped. A pair is named by its row's id."""
    found = []
    for ballot in ballots:
        pair, a_is_left = ballot.pair, ballot.showing.a_is_left
        for aspect, side in {"overall": ballot.vote.choice, **ballot.vote.aspects}.items():
            if side == "skip":
                continue
            judged = Judgement(
                pair=str(pair.id),
                prompt=pair.prompt,
                model_a=pair.model_a,
                model_b=pair.model_b,
                choice=_choice(side, a_is_left),
                reviewer=ballot.reviewer,
                a_was_left=a_is_left,
                aspect=aspect,
                repeat_of=None if pair.repeat_of is None else str(pair.repeat_of),
            )
            found.append(judged)
    return found


def standing_of(session: Session, set_id: str, aspect: str) -> Standing:
    """What the votes of a set say on one aspect. The models are compared with the base, or the lowest step there is."""
    return _standing(set_id, aspect, votes.version(session, set_id))


@lru_cache(maxsize=64)
def _standing(set_id: str, aspect: str, version: tuple[int, int]) -> Standing:
    """version: of the votes, so that one that was worked out is used until there is another vote."""
    from backend.preferences.standing import Model, standing

    with reading() as session:
        rows = reviews.models(session, set_id)
        scores = {str(pair.id): _scores(pair) for pair in reviews.pairs(session, set_id)}
        found = judgements(votes.standing(session, set_id))
    models = [Model(row.key, row.label, row.run_id, row.step) for row in rows]
    return standing(found, models, base_of(rows), scores, aspect)


def base_of(models: Sequence[ReviewModel]) -> str:
    """Key of the model at 1000: the first by step."""
    return models[0].key


def _scores(pair: ReviewPair) -> PairScores:
    from backend.preferences.reward_agreement import PairScores

    a, b = (
        {name: score for name, score in scores.items() if score is not None}
        for scores in (pair.scores_a, pair.scores_b)
    )
    return PairScores(a, b)


def _choice(side: str, a_is_left: bool) -> Choice:
    if side in ("tie", "both_bad"):
        return "tie" if side == "tie" else "both_bad"
    return "a" if (side == "left") == a_is_left else "b"
