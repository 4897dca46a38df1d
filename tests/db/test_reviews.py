from __future__ import annotations

import pytest

from db import reviews
from db.models import ReviewPair
from db.session import reading, writing
from tests.db.review_rows import cast, current, invite, make_set, pair, sit


def test_set_keeps_models_pairs_and_repeats_in_order(database: None) -> None:
    made = make_set([pair(0), pair(1), pair(0, repeat_of=0, flipped=True)])
    with reading() as session:
        found = reviews.pairs(session, made.id)
        assert [(one.ordinal, one.prompt_index, one.flipped) for one in found] == [
            (0, 0, False),
            (1, 1, False),
            (2, 0, True),
        ]
        assert found[2].repeat_of == found[0].id
        assert found[0].seed == 2**40
        assert [model.key for model in reviews.models(session, made.id)] == ["base", "tuned"]
        assert reviews.pair(session, made.id, found[1].id).prompt == "prompt 1"
        with pytest.raises(LookupError, match="none of this id"):
            reviews.pair(session, "another set", found[1].id)


def test_list_counts_pairs_reviewers_and_votes_that_stand(database: None) -> None:
    older, newer = make_set([pair(0)]), make_set([pair(0), pair(1)])
    ada = invite(newer)
    invite(newer, "bob")
    cast(ada, current(sit(ada)))
    with reading() as session:
        listed = reviews.listing(session)
        assert [(row.id, counts.pairs, counts.votes, counts.reviewers) for row, counts in listed] == [
            (newer.id, 2, 1, 2),
            (older.id, 1, 0, 0),
        ]
        assert [(one.pseudonym, done) for one, done in reviews.reviewers(session, newer.id)] == [("ada", 1), ("bob", 0)]
        with pytest.raises(LookupError, match="review set nothing"):
            reviews.get(session, "nothing")


def test_tokens_are_long_and_pseudonyms_are_had_once_a_set(database: None) -> None:
    made, other = make_set([pair(0)]), make_set([pair(0)])
    tokens = {invite(made, f"reviewer {i}").token for i in range(20)} | {invite(other, "reviewer 0").token}
    assert len(tokens) == 21
    assert {len(token) for token in tokens} == {22}  # 128 bits in base 64
    with pytest.raises(ValueError, match="pseudonym: 'reviewer 0'"):
        invite(made, "reviewer 0")


def test_preferred_pairs_come_first_and_repeats_before_them(database: None) -> None:
    made = make_set([pair(0), pair(1), pair(2), pair(0, repeat_of=0)])

    def order() -> list[int]:
        with reading() as session:
            return [one.ordinal for one in sorted(reviews.pairs(session, made.id), key=lambda one: one.place)]

    with writing() as session:
        ids = [one.id for one in reviews.pairs(session, made.id)]
        reviews.prefer(session, made.id, [ids[2], ids[1]])
    assert order() == [3, 2, 1, 0]
    with writing() as session:
        reviews.prefer(session, made.id, [ids[1]])
    assert order() == [3, 1, 0, 2]


def test_media_are_there_when_every_hash_is_known(database: None) -> None:
    from db import artifacts
    from tests.db.test_facts import artifact

    made = make_set([pair(0)])
    with writing() as session:
        artifacts.put(session, [artifact("a")])
        assert not reviews.has_media(session, made.id)
        artifacts.put(session, [artifact("b")])
        assert reviews.has_media(session, made.id)


def test_set_is_closed_and_opened(database: None) -> None:
    made = make_set([pair(0)])
    with writing() as session:
        reviews.close(session, made.id)
    with writing() as session:
        first = reviews.get(session, made.id).closed_at
        assert first is not None
        reviews.close(session, made.id)
        assert reviews.get(session, made.id).closed_at == first
        reviews.open_again(session, made.id)
    with reading() as session:
        assert reviews.get(session, made.id).closed_at is None


def test_a_set_takes_its_pairs_with_it(database: None) -> None:
    made = make_set([pair(0), pair(0, repeat_of=0)])
    ada = invite(made)
    cast(ada, current(sit(ada)))
    with writing() as session:
        session.delete(reviews.get(session, made.id))
    with reading() as session:
        assert session.query(ReviewPair).count() == 0
