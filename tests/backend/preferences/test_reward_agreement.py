import numpy as np
import pytest

from backend.preferences.reward_agreement import PairScores, reward_agreement
from backend.preferences.wilson import clustered_share
from tests.backend.preferences.votes import vote, votes


def scored(*gaps, name="reward"):
    """Pairs 0, 1, ... whose a scores `gap` more than b."""
    return {str(pair): PairScores({name: gap}, {name: 0.0}) for pair, gap in enumerate(gaps)}


def test_accuracy_is_the_share_of_votes_for_the_higher_score():
    # a a b tie b on gaps +1 -1 -1 +1 0: right, wrong, right, not decided, half
    (found,) = reward_agreement(votes("aabtb"), scored(1, -1, -1, 1, 0))
    assert found.accuracy == clustered_share([1, 0, 1, 0.5], list("0124"))
    assert found.accuracy.value == 2.5 / 4
    assert (found.votes, found.pairs) == (4, 4)


def test_rewards_are_listed_by_name_where_both_samples_have_them():
    scores = {"0": PairScores({"z": 1.0, "k": 1.0, "only a": 1.0}, {"z": 0.0, "k": 2.0})}
    found = reward_agreement([vote("a")], scores)
    assert [(one.reward, one.accuracy.value) for one in found] == [("k", 0), ("z", 1)]


def test_pairs_without_scores_votes_without_winner_and_repeats_are_left_out():
    judged = [vote("a", "0"), vote("a", "9"), vote("tie", "1"), vote("a", "2", prompt="0", repeat_of="0")]
    (found,) = reward_agreement(judged, scored(1, 1, 1))
    assert found.votes == 1
    assert reward_agreement([vote("tie")], scored(1)) == []


def test_calibration_bins_go_from_small_gaps_to_large_ones_with_equal_votes():
    # 30 votes that follow the reward, with gaps 1 .. 30
    (found,) = reward_agreement(votes("a" * 30), scored(*range(1, 31)))
    assert [(one.low_gap, one.high_gap, one.votes) for one in found.calibration] == [
        (1, 10, 10),
        (11, 20, 10),
        (21, 30, 10),
    ]
    assert all(one.agree.value == 1 for one in found.calibration)


def test_people_who_follow_the_gap_show_a_rising_calibration():
    rng = np.random.default_rng(0)
    gaps = rng.normal(0, 2, 4000)
    choices = np.where(rng.random(4000) < 1 / (1 + np.exp(-gaps)), "a", "b")
    (found,) = reward_agreement(votes("".join(choices)), scored(*gaps))
    agree = [one.agree.value for one in found.calibration]
    assert len(agree) == 5
    assert agree == sorted(agree)
    for one in found.calibration:
        middle = (one.low_gap + min(one.high_gap, 6)) / 2
        assert one.agree.value == pytest.approx(1 / (1 + np.exp(-middle)), abs=0.08)


def test_disagreements_are_by_majority_with_the_largest_gap_first():
    judged = [
        vote("b", "0"), vote("b", "1"), vote("a", "2"),
        vote("a", "3", reviewer="ann"), vote("a", "3", reviewer="bob"), vote("b", "3", reviewer="eve"),
        vote("b", "4", reviewer="ann"), vote("a", "4", reviewer="bob"),
    ]  # fmt: skip
    # pair 2 agrees, pair 4 is split
    (found,) = reward_agreement(judged, scored(0.5, 3, 1, -2, 9))
    assert [(one.pair, one.score_a, one.votes_a, one.votes_b) for one in found.disagreements] == [
        ("1", 3, 0, 1),
        ("3", -2, 2, 1),
        ("0", 0.5, 0, 1),
    ]
