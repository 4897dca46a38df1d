"""Review sets between rows and the record that files hold."""

from __future__ import annotations

import secrets
from collections import defaultdict

from sqlalchemy.orm import Session

from backend.preferences.archive import (
    Archive,
    ArchivedModel,
    ArchivedPair,
    ArchivedReviewer,
    ArchivedShowing,
    ArchivedVote,
)
from db import reviews, showings, votes
from db.models import ReviewPair, Showing, Vote, utc_now

VOTE = ("choice", "aspects", "milliseconds", "created_at", "undone_at")
PAIR = (
    "prompt_index", "prompt", "task", "seed", "seed_b", "model_a", "model_b", "kind", "scores_a", "scores_b", "flipped",
)  # fmt: skip


def archive(session: Session, set_id: str) -> Archive:
    """The set with all of its showings and votes, undone ones too. LookupError when there is none."""
    row = reviews.get(session, set_id)
    of_showing: dict[str, list[ArchivedVote]] = defaultdict(list)
    for vote in votes.all_votes(session, set_id):
        of_showing[vote.showing_id].append(ArchivedVote(**{name: getattr(vote, name) for name in VOTE}))
    pairs = reviews.pairs(session, set_id)
    place_of = {pair.id: pair.ordinal for pair in pairs}
    return Archive(
        name=row.name,
        owner=row.owner,
        created_at=row.created_at,
        settings=row.settings,
        seed=row.seed,
        closed_at=row.closed_at,
        models=[
            ArchivedModel(key=one.key, label=one.label, run_id=one.run_id, step=one.step)
            for one in reviews.models(session, set_id)
        ],
        pairs=[_pair(pair, place_of) for pair in pairs],
        reviewers=[
            ArchivedReviewer(pseudonym=one.pseudonym, quota=one.quota, created_at=one.created_at)
            for one, _ in reviews.reviewers(session, set_id)
        ],
        showings=[
            ArchivedShowing(
                pair=pair.ordinal,
                reviewer=pseudonym,
                ordinal=shown.ordinal,
                a_is_left=shown.a_is_left,
                shown_at=shown.shown_at,
                votes=of_showing[shown.id],
            )
            for shown, pair, pseudonym in showings.listing(session, set_id)
        ],
    )


def restore(session: Session, archived: Archive) -> str:
    """Writes a set with new ids and new secret links; returns its id. Without its pictures here it is closed."""
    made = reviews.create(
        session,
        name=archived.name,
        owner=archived.owner,
        settings=archived.settings.model_dump(),
        seed=archived.seed,
        models=[model.model_dump() for model in archived.models],
        pairs=[
            pair.model_dump(exclude={"image_a", "image_b"}) | {"sha_a": pair.image_a, "sha_b": pair.image_b}
            for pair in archived.pairs
        ],
    )
    made.created_at = archived.created_at
    made.closed_at = archived.closed_at
    if made.closed_at is None and not reviews.has_media(session, made.id):
        made.closed_at = utc_now()
    reviewer_ids = {}
    for one in archived.reviewers:
        reviewer = reviews.invite(session, made.id, one.pseudonym, one.quota)
        reviewer.created_at = one.created_at
        reviewer_ids[one.pseudonym] = reviewer.id
    pairs = reviews.pairs(session, made.id)
    given: list[Vote] = []
    for shown in archived.showings:
        pair = pairs[shown.pair]
        row = _showing(shown, pair.id, reviewer_ids[shown.reviewer])
        session.add(row)
        skipped = any(vote.undone_at is None and vote.choice == "skip" for vote in shown.votes)
        pair.handed += 0 if skipped else 1
        given += [
            Vote(showing_id=row.id, client_key=secrets.token_hex(16), **vote.model_dump()) for vote in shown.votes
        ]
    session.flush()
    given.sort(key=lambda vote: vote.created_at)
    session.add_all(given)
    session.flush()
    return made.id


def _pair(pair: ReviewPair, place_of: dict[int, int]) -> ArchivedPair:
    return ArchivedPair(
        **{name: getattr(pair, name) for name in PAIR},
        image_a=pair.sha_a,
        image_b=pair.sha_b,
        repeat_of=None if pair.repeat_of is None else place_of[pair.repeat_of],
    )


def _showing(shown: ArchivedShowing, pair_id: int, reviewer_id: str) -> Showing:
    return Showing(
        id=secrets.token_hex(16),
        pair_id=pair_id,
        reviewer_id=reviewer_id,
        ordinal=shown.ordinal,
        a_is_left=shown.a_is_left,
        shown_at=shown.shown_at,
    )
