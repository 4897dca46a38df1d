import numpy as np
import pytest

from backend.preferences.reviewers import reviewers
from backend.preferences.schedule import schedule
from backend.preferences.simulate import Simulated, World, simulate
from tests.backend.preferences.votes import vote

WORLD = World({"base": 0, "tuned": 200}, spread=600)


def judged_by(people, seed=0, repeats=0.0):
    rng = np.random.default_rng(seed)
    pairs = schedule(["base", "tuned"], range(120), [0], repeats, rng)
    return simulate(WORLD, pairs, people, len(people), rng)


def careful(count):
    return [Simulated(f"careful {number}", ties=0.05, error=0.05) for number in range(count)]


def test_agreement_is_the_share_of_the_others_equal_answers():
    answers = {"ann": "aab", "bob": "aaa", "eve": "bab"}
    judged = [vote(one, str(pair), reviewer=who) for who, given in answers.items() for pair, one in enumerate(given)]
    found = {one.reviewer: one for one in reviewers(judged)}
    # ann is like bob on pairs 0 and 1, like eve on 1 and 2: 4 of 6; bob like eve on pair 1 alone
    assert [found[who].agreement for who in ("ann", "bob", "eve")] == pytest.approx([4 / 6, 3 / 6, 3 / 6])
    assert [one.shared_pairs for one in found.values()] == [3, 3, 3]


def test_a_reviewer_alone_has_no_agreement():
    (found,) = reviewers([vote("a")])
    assert (found.votes, found.agreement, found.shared_pairs, found.reasons) == (1, None, 0, [])


def test_one_who_clicks_at_random_is_found():
    found = {one.reviewer: one for one in reviewers(judged_by([*careful(4), Simulated("clicker", error=1)]))}
    assert [name for name, one in found.items() if one.reasons] == ["clicker"]
    assert "agrees with the others" in found["clicker"].reasons[0]


def test_one_who_clicks_left_is_found_by_the_side():
    found = {one.reviewer: one for one in reviewers(judged_by([*careful(4), Simulated("lefty", error=1, left=0.9)]))}
    assert [name for name, one in found.items() if one.reasons] == ["lefty"]
    assert any("chose the left side" in reason for reason in found["lefty"].reasons)


def test_careful_reviewers_are_seldom_suspected():
    suspected = [bool(one.reasons) for seed in range(20) for one in reviewers(judged_by(careful(5), seed))]
    # two tests at 0.05 / 5 each: 2 of 100 expected; more than 7 has a chance of 0.1 %
    assert sum(suspected) <= 7


def test_repeats_count_for_self_agreement_alone():
    found = reviewers(judged_by(careful(2), repeats=0.1))
    assert [(one.votes, one.self_agreement.repeats) for one in found] == [(120, 12), (120, 12)]
