import numpy as np
import pytest

from backend.preferences.agreement import alpha, nominal_alpha, self_agreement, sides
from backend.preferences.wilson import share
from tests.backend.preferences.votes import vote


def by_two(*pairs):
    """Answers of two reviewers to each pair: "ab" is one who chose a and one who chose b."""
    words = {"a": "a", "b": "b", "t": "tie", "x": "both_bad"}
    return [
        vote(words[one], pair=str(number), reviewer=reviewer)
        for number, answers in enumerate(pairs)
        for reviewer, one in zip("uv", answers, strict=False)
    ]


def test_alpha_of_a_published_example():
    # Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C: four observers, twelve units, 0.743
    ratings = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]
    counts = [[sum(row[unit] == value for row in ratings) for value in range(1, 6)] for unit in range(12)]
    assert nominal_alpha(np.array(counts, dtype=float)) == pytest.approx(0.743, abs=5e-4)


def test_alpha_counted_by_hand():
    # coincidences: aa 2, bb 2, ab + ba 2, so 2 of 6 values are met by another one; of values drawn without putting back
    # 3 a and 3 b, 18 of 30 are unequal: 1 - (2 / 6) / (18 / 30) = 4 / 9
    assert alpha(by_two("aa", "bb", "ab")) == pytest.approx(4 / 9)


def test_full_agreement_is_1_and_pairs_with_one_vote_do_not_count():
    assert alpha(by_two("aa", "bb", "tt")) == 1
    assert alpha(by_two("aa", "bb", "ab", "a", "b")) == alpha(by_two("aa", "bb", "ab"))


def test_tie_and_both_bad_are_one_answer():
    assert alpha(by_two("tx", "aa", "bb")) == 1


def test_answers_at_random_have_an_alpha_near_0():
    drawn = np.random.default_rng(0).choice(list("ab"), (2000, 2))
    assert abs(alpha(by_two(*drawn))) < 0.05


def test_alpha_is_not_known_without_two_votes_on_a_pair_or_with_one_answer_only():
    assert alpha(by_two("a", "b")) is None
    assert alpha(by_two("aa", "aa")) is None
    assert alpha([]) is None


def test_sides_count_decided_first_views():
    judged = [vote("a", "1"), vote("b", "2", left=False), vote("b", "3"), vote("tie", "4")]
    judged.append(vote("a", "5", prompt="1", repeat_of="1"))
    found = sides(judged)
    # left: pair 1 (a, on the left) and pair 2 (b, as a was right); right: pair 3
    assert (found.left, found.decided) == (2, 3)
    assert found.share == share(2, 3)
    assert found.p_value == 1


def test_a_habit_of_the_left_side_is_significant():
    found = sides([vote("a", str(number)) for number in range(10)])
    # 2 / 2^10
    assert found.p_value == pytest.approx(2 / 1024)


def test_no_decided_vote_has_no_side():
    assert sides([vote("tie")]).share is None


def repeated(first, again, flipped):
    # a reviewer's answer and the answer to the repeat, the first with a on the left
    return [vote(first, "1"), vote(again, "2", prompt="1", left=not flipped, repeat_of="1")]


def test_repeats_are_compared_with_the_first_view_of_the_same_reviewer():
    same = self_agreement(repeated("a", "a", flipped=False))
    assert (same.repeats, same.share, same.same_sides, same.flipped_sides) == (1, share(1, 1), share(1, 1), None)
    other = self_agreement(repeated("a", "b", flipped=True))
    assert (other.repeats, other.share, other.same_sides, other.flipped_sides) == (1, share(0, 1), None, share(0, 1))
    assert self_agreement(repeated("tie", "both_bad", flipped=True)).share == share(1, 1)


def test_a_repeat_whose_models_change_places_is_the_same_question():
    # the repeat names tuned as a, on the left: its sides are flipped, and b is the base again
    first = vote("a", "1")
    again = vote("b", "2", prompt="1", a="tuned", b="base", repeat_of="1")
    assert self_agreement([first, again]).flipped_sides == share(1, 1)


def test_a_repeat_without_a_first_view_is_left_out():
    judged = [vote("a", "1"), vote("a", "2", prompt="1", reviewer="bob", repeat_of="1")]
    assert self_agreement(judged).repeats == 0


def test_who_always_chooses_one_side_agrees_with_themselves_only_on_the_same_sides():
    judged = repeated("a", "a", flipped=False)
    judged += [vote("a", "3", left=True), vote("b", "4", prompt="3", left=False, repeat_of="3")]
    found = self_agreement(judged)
    assert (found.same_sides.value, found.flipped_sides.value) == (1, 0)


def test_repeats_of_two_samples_of_one_model_are_compared_by_sample():
    first = vote("a", "1", b="base", left=True)
    same = vote("a", "2", prompt="1", b="base", left=False, repeat_of="1")
    other = vote("b", "3", prompt="1", b="base", left=True, repeat_of="1")
    assert self_agreement([first, same]).flipped_sides == share(1, 1)
    assert self_agreement([first, other]).same_sides == share(0, 1)
