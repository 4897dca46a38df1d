from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from db import reviews, showings, votes
from db.models import Reviewer, Vote
from db.session import reading, writing
from tests.db.review_rows import cast, current, invite, make_set, pair, sit, undo


@pytest.fixture
def ada(database: None) -> Reviewer:
    return invite(make_set([pair(i) for i in range(6)]))


def choices(reviewer: Reviewer) -> list[str]:
    with reading() as session:
        return [ballot.vote.choice for ballot in votes.standing(session, reviewer.set_id)]


def test_vote_is_kept_with_everything_told(ada: Reviewer) -> None:
    showing = current(sit(ada))
    assert cast(ada, showing, "right", "k" * 32, {"quality": "tie"})[0]
    with reading() as session:
        (ballot,) = votes.standing(session, ada.set_id)
    vote = ballot.vote
    assert (vote.choice, vote.aspects, vote.milliseconds, vote.client_key) == (
        "right",
        {"quality": "tie"},
        1200,
        "k" * 32,
    )
    assert (ballot.reviewer, ballot.pair.ordinal, ballot.showing.id) == ("ada", 0, showing)


def test_request_that_is_sent_again_counts_once(ada: Reviewer) -> None:
    showing = current(sit(ada))
    assert [cast(ada, showing, "left", "same key")[0] for _ in range(3)] == [True] * 3
    assert choices(ada) == ["left"]


def test_double_click_and_second_tab_count_once(ada: Reviewer) -> None:
    showing = current(sit(ada))
    assert cast(ada, showing, "left", "one tab")[0]
    assert cast(ada, showing, "left", "other tab")[0]  # the same answer: nothing to object to
    counted, desk = cast(ada, showing, "right", "third tab")
    assert not counted
    assert (desk.done, current(desk) != showing) == (1, True)
    assert choices(ada) == ["left"]


def test_other_aspects_are_another_answer(ada: Reviewer) -> None:
    showing = current(sit(ada))
    assert cast(ada, showing, "left", "one", {"quality": "left"})[0]
    assert not cast(ada, showing, "left", "two", {"quality": "right"})[0]


def test_key_of_another_showing_is_refused(ada: Reviewer) -> None:
    _, desk = cast(ada, current(sit(ada)), "left", "the key")
    assert not cast(ada, current(desk), "left", "the key")[0]


def test_showing_of_somebody_else_is_unknown(ada: Reviewer) -> None:
    with writing() as session:
        bob = reviews.invite(session, ada.set_id, "bob", None)
    with pytest.raises(LookupError, match="not one of this reviewer's"):
        cast(bob, current(sit(ada)))


def test_undo_works_back_to_the_first_vote(ada: Reviewer) -> None:
    shown = []
    desk = sit(ada)
    for choice in ("left", "tie", "both_bad"):
        shown.append(current(desk))
        _, desk = cast(ada, shown[-1], choice)
    for showing in reversed(shown):
        undone, desk = undo(ada)
        assert undone
        assert current(desk) == showing
    assert undo(ada) == (False, desk)
    assert (desk.done, choices(ada)) == (0, [])
    with reading() as session:
        kept = votes.all_votes(session, ada.set_id)
    assert [(vote.choice, vote.undone_at is not None) for vote in kept] == [
        ("left", True),
        ("tie", True),
        ("both_bad", True),
    ]


def test_undone_pair_is_judged_again_and_then_the_desk_goes_on(ada: Reviewer) -> None:
    first = current(sit(ada))
    _, desk = cast(ada, first, "left", "first key")
    second = current(desk)
    undo(ada)
    counted, desk = cast(ada, first, "left", "first key")
    assert counted
    assert current(desk) == first  # a late copy of the undone request does not count again
    _, desk = cast(ada, first, "right", "second key")
    assert current(desk) == second
    assert choices(ada) == ["right"]


def test_undo_does_not_reach_into_votes_of_others(ada: Reviewer) -> None:
    with writing() as session:
        bob = reviews.invite(session, ada.set_id, "bob", None)
    cast(bob, current(sit(bob)), "right")
    assert undo(ada)[0] is False
    assert choices(ada) == ["right"]


def test_undoing_a_skip_counts_the_pair_as_handed_out_again(ada: Reviewer) -> None:
    def handed() -> int:
        with reading() as session:
            return reviews.pairs(session, ada.set_id)[0].handed

    showing = current(sit(ada))
    assert handed() == 1
    cast(ada, showing, "skip")
    assert handed() == 0
    undo(ada)
    assert handed() == 1


def test_closed_set_takes_no_vote_and_no_undo(ada: Reviewer) -> None:
    showing = current(sit(ada))
    _, desk = cast(ada, showing, "left", "first key")
    with writing() as session:
        reviews.close(session, ada.set_id)
    assert not cast(ada, current(desk))[0]
    assert not undo(ada)[0]
    assert cast(ada, showing, "left", "first key")[0]  # it was counted before
    assert choices(ada) == ["left"]


def test_database_refuses_a_second_vote_that_stands(ada: Reviewer) -> None:
    showing = current(sit(ada))
    cast(ada, showing)
    again: dict[str, Any] = {"showing_id": showing, "choice": "right", "aspects": {}, "milliseconds": 1}
    with pytest.raises(IntegrityError), writing() as session:
        session.add(Vote(**again, client_key="another"))


def test_version_changes_with_votes_and_undo(ada: Reviewer) -> None:
    seen = []
    for act in (lambda: None, lambda: cast(ada, current(sit(ada))), lambda: undo(ada)):
        act()
        with reading() as session:
            seen.append(votes.version(session, ada.set_id))
    assert len(set(seen)) == 3


def test_many_tabs_at_once_make_one_vote(ada: Reviewer) -> None:
    showing = current(sit(ada))
    with ThreadPoolExecutor(8) as tabs:
        counted = list(tabs.map(lambda i: cast(ada, showing, "left" if i % 2 else "right", f"tab {i}")[0], range(8)))
    assert len(choices(ada)) == 1
    assert sum(counted) == 4  # the half that gave the answer that stands


def test_reviewers_at_once_lose_nothing_and_share_the_pairs(database: None) -> None:
    made = make_set([pair(i) for i in range(30)])
    people = [invite(made, f"reviewer {i}", quota=5) for i in range(6)]

    def judge(reviewer: Reviewer) -> list[str]:
        answered = []
        desk = sit(reviewer)
        while desk.current is not None:
            answered.append(desk.current.id)
            _, desk = cast(reviewer, answered[-1])
        return answered

    with ThreadPoolExecutor(6) as together:
        answered = [showing for one in together.map(judge, people) for showing in one]
    with reading() as session:
        stored = {ballot.showing.id for ballot in votes.standing(session, made.id)}
        judged = [row.ordinal for _, row, _ in showings.listing(session, made.id)]
    assert stored == set(answered)
    assert sorted(judged) == list(range(30))  # 6 reviewers x 5 pairs, none twice
