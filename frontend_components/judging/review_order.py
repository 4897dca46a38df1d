"""Active sampling: as votes come in, pairs that would tell most about the ratings are handed out first."""

from __future__ import annotations

from db import reviews, votes
from db.session import reading, writing
from frontend_components.judging.review_judgements import judgements

EVERY = 10  # votes
AHEAD = 40  # pairs that are put in order; more than reviewers take until the next time


def reorder_when_due(set_id: str) -> None:
    """Called after each vote; works at every tenth. Only pairs that were handed out least often so far are ordered."""
    from backend.preferences.schedule import uncertain_first

    with reading() as session:
        if votes.version(session, set_id)[1] % EVERY:
            return
        first_views = [pair for pair in reviews.pairs(session, set_id) if pair.repeat_of is None]
        judged = [one for one in judgements(votes.standing(session, set_id)) if one.aspect == "overall"]
    least = min(pair.handed for pair in first_views)
    waiting = [pair for pair in first_views if pair.handed == least]
    chosen = [waiting[place].id for place in uncertain_first(waiting, judged, AHEAD)]
    with writing() as session:
        reviews.prefer(session, set_id, chosen)
