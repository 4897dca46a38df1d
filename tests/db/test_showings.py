from __future__ import annotations

from collections import Counter

import pytest

from db import reviews, showings
from db.session import reading, writing
from tests.db.review_rows import cast, current, invite, make_set, pair, sit


def shown_to(set_id: str) -> dict[str, list[tuple[int, bool]]]:
    """(ordinal of the pair, A on the left) by reviewer, in the order of showing."""
    found: dict[str, list[tuple[int, bool]]] = {}
    with reading() as session:
        for shown, row, reviewer in showings.listing(session, set_id):
            found.setdefault(reviewer, []).append((row.ordinal, shown.a_is_left))
    return found


def test_unknown_token_is_refused(database: None) -> None:
    with pytest.raises(LookupError, match="not known"), writing() as session:
        showings.sit(session, "nobody")


def test_desk_has_the_current_pair_and_the_next(database: None) -> None:
    ada = invite(make_set([pair(0), pair(1), pair(2)]))
    desk = sit(ada)
    assert desk.current is not None
    assert desk.next is not None
    assert (desk.done, desk.current.prompt, desk.next.prompt) == (0, "prompt 0", "prompt 1")
    assert sit(ada) == desk  # a reload shows the same
    _, after = cast(ada, desk.current.id)
    assert after.current == desk.next
    assert after.done == 1


def test_reviewers_get_different_pairs_until_all_are_out(database: None) -> None:
    made = make_set([pair(i) for i in range(12)])
    for name in ("ada", "bob", "eve"):
        reviewer = invite(made, name)
        desk = sit(reviewer)
        for _ in range(3):
            _, desk = cast(reviewer, current(desk))
    # 3 answers and the last one's current and next: 5, 5 and then the 2 that are left and 3 handed out again
    counted = Counter(ordinal for one in shown_to(made.id).values() for ordinal, _ in one)
    assert sorted(counted.values()) == [1] * 9 + [2] * 3


def test_each_reviewer_sees_every_pair_once(database: None) -> None:
    made = make_set([pair(i) for i in range(5)])
    for name in ("ada", "bob"):
        reviewer = invite(made, name)
        desk = sit(reviewer)
        while desk.current is not None:
            _, desk = cast(reviewer, desk.current.id)
        assert desk.done == 5
    assert [sorted(ordinal for ordinal, _ in one) for one in shown_to(made.id).values()] == [[0, 1, 2, 3, 4]] * 2


def test_quota_ends_the_desk(database: None) -> None:
    ada = invite(make_set([pair(i) for i in range(5)]), quota=1)
    desk = sit(ada)
    assert desk.next is None
    _, desk = cast(ada, current(desk))
    assert (desk.done, desk.current) == (1, None)
    with writing() as session:
        assert showings.sit(session, ada.token).total == 1


def test_repeat_waits_for_its_pair_and_keeps_or_flips_the_sides(database: None) -> None:
    pairs = [pair(i) for i in range(9)] + [pair(0, repeat_of=0, flipped=True), pair(1, repeat_of=1)]
    made = make_set(pairs)
    ada = invite(made)
    desk = sit(ada)
    while desk.current is not None:
        _, desk = cast(ada, desk.current.id)
    (seen,) = shown_to(made.id).values()
    place = {ordinal: number for number, (ordinal, _) in enumerate(seen)}
    left = dict(seen)
    assert place[9] - place[0] > showings.GAP
    assert place[10] - place[1] > showings.GAP
    assert left[9] is not left[0]
    assert left[10] is left[1]


def test_repeat_comes_early_when_nothing_else_is_left(database: None) -> None:
    made = make_set([pair(0), pair(0, repeat_of=0)])
    ada = invite(made)
    _, desk = cast(ada, current(sit(ada)))
    _, desk = cast(ada, current(desk))
    assert (desk.done, desk.current) == (2, None)


def test_repeat_of_a_pair_that_somebody_else_saw_is_not_shown(database: None) -> None:
    made = make_set([pair(i) for i in range(20)] + [pair(0, repeat_of=0)])
    ada, bob = invite(made), invite(made, "bob", quota=8)
    sit(ada)
    desk = sit(bob)
    while desk.current is not None:
        _, desk = cast(bob, desk.current.id)
    assert 20 not in [ordinal for ordinal, _ in shown_to(made.id)["bob"]]


def test_skipped_pair_is_handed_to_others_first(database: None) -> None:
    made = make_set([pair(0), pair(1)])
    ada, bob = invite(made), invite(made, "bob")
    cast(ada, current(sit(ada)), "skip")
    assert sit(bob).current is not None
    assert shown_to(made.id)["bob"][0][0] == 0


def test_sides_are_drawn_by_a_coin(database: None) -> None:
    made = make_set([pair(i) for i in range(60)])
    ada = invite(made)
    desk = sit(ada)
    while desk.current is not None:
        _, desk = cast(ada, desk.current.id)
    left = sum(a_is_left for _, a_is_left in shown_to(made.id)["ada"])
    assert 10 <= left <= 50  # 30 +- 5 standard deviations of 3.9


def test_closed_set_shows_nothing(database: None) -> None:
    made = make_set([pair(0), pair(1)])
    ada = invite(made)
    desk = sit(ada)
    with writing() as session:
        reviews.close(session, made.id)
    assert sit(ada).current is None
    with writing() as session:
        reviews.open_again(session, made.id)
    assert sit(ada) == desk
