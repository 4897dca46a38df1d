import numpy as np

from backend.preferences.model_standings import Model
from backend.preferences.standing import standing
from tests.backend.preferences.votes import vote, votes

MODELS = [Model("base", "the base"), Model("tuned", "run 7"), Model("far", "run 8"), Model("away", "run 9")]


def warnings_of(judged, models=MODELS[:2]):
    return standing(judged, models, "base").warnings


def two_people(answers, reviewers=("ann", "bob")):
    return [one for reviewer in reviewers for one in votes(answers, reviewer=reviewer)]


def test_a_sound_review_has_no_warning():
    # sides alternate in twos, so that neither side nor model wins
    judged = [
        vote("ab"[number % 2], str(number), reviewer=reviewer, left=number % 4 < 2)
        for reviewer in ("ann", "bob")
        for number in range(40)
    ]
    assert warnings_of(judged) == []


def test_models_apart_from_the_base_are_named():
    found = warnings_of(votes("ab" * 20) + votes("ab", a="far", b="away"), MODELS)
    assert [line.split(" has no rating")[0] for line in found[:2]] == ["run 8", "run 9"]
    assert "no chain of comparisons leads from it to the base" in found[0]


def test_a_rating_without_a_loss_or_a_win_is_a_bound():
    assert warnings_of(votes("bt" * 20))[0] == "run 7 never lost: its rating is a lower bound."
    assert warnings_of(votes("at" * 20))[0] == "run 7 never won: its rating is an upper bound."


def test_few_prompts_are_said():
    assert any("about 12 prompts" in line for line in warnings_of(two_people("ab" * 6)))
    assert not any("prompts" in line for line in warnings_of(two_people("ab" * 15)))


def test_a_habit_of_sides_is_said():
    found = warnings_of(votes("a" * 30 + "b" * 10))
    # all with a on the left: 30 of 40
    assert any(line.startswith("The left side was chosen in 75% of 40 votes") for line in found)


def test_one_reviewer_alone_and_disagreement_are_said():
    assert any("There is one reviewer" in line for line in warnings_of(votes("ab" * 20)))
    rng = np.random.default_rng(0)
    judged = [
        vote(str(rng.choice(["a", "b"])), str(number), reviewer=reviewer)
        for reviewer in ("ann", "bob")
        for number in range(60)
    ]
    assert any("Reviewers agree little" in line for line in warnings_of(judged))


def test_a_suspected_reviewer_is_named_with_the_reason():
    # three agree on everything, eve answers the other way round
    judged = two_people("ab" * 20, ("ann", "bob", "joe")) + votes("ba" * 20, reviewer="eve")
    lines = [line for line in warnings_of(judged) if line.startswith("eve")]
    assert lines == ["eve agrees with the others in 0% of answers, these among themselves in 100%."]
