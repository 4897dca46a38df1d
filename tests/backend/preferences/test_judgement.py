import pytest

from backend.preferences.judgement import first_views
from tests.backend.preferences.votes import vote


@pytest.mark.parametrize(
    ("choice", "score", "better"), [("a", 1, "base"), ("b", 0, "tuned"), ("tie", 0.5, None), ("both_bad", 0.5, None)]
)
def test_a_choice_is_a_score_and_a_better_model(choice, score, better):
    assert (vote(choice).score_of_a, vote(choice).better) == (score, better)


@pytest.mark.parametrize(
    ("choice", "left", "chose_left"),
    [("a", True, True), ("a", False, False), ("b", True, False), ("b", False, True), ("tie", True, None)],
)
def test_the_chosen_side_follows_from_choice_and_sides(choice, left, chose_left):
    assert vote(choice, left=left).chose_left is chose_left


def test_first_views_leave_repeats_out():
    first, repeat = vote("a", pair="1"), vote("a", pair="2", prompt="1", repeat_of="1")
    assert first_views([first, repeat]) == [first]


def test_an_answer_that_is_not_a_judgement_is_refused():
    with pytest.raises(ValueError, match="'skip' is none of a, b, tie, both_bad"):
        vote("skip")


def test_two_samples_of_one_model_are_told_apart_by_choice_and_side():
    judged = vote("b", a="base", b="base", left=False)
    assert judged.of_one_model
    assert (judged.score_of_a, judged.better, judged.chose_left) == (0, "base", True)
    assert not vote("b").of_one_model
