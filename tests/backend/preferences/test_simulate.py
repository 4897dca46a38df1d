import numpy as np
import pytest

from backend.preferences.bradley_terry import rate
from backend.preferences.schedule import schedule
from backend.preferences.simulate import Simulated, World, expected_score, simulate, true_elo


def rng():
    return np.random.default_rng(0)


def judged(world, reviewer, prompts=2000, votes_a_pair=1, repeats=0.0):
    generator = rng()
    pairs = schedule(list(world.ratings), range(prompts), [0], repeats, generator)
    people = [Simulated(str(number), reviewer.ties, reviewer.error, reviewer.left) for number in range(3)]
    return simulate(world, pairs, people, votes_a_pair, generator)


def test_without_spread_ties_and_errors_the_truth_is_the_worlds():
    world = World({"base": 50, "tuned": 450})
    assert expected_score(world, "tuned", "base", Simulated("")) == pytest.approx(10 / 11)
    assert true_elo(world, "base", Simulated("")) == pytest.approx({"base": 1000, "tuned": 1400})


def test_ties_and_errors_bring_the_expected_score_to_a_half():
    world = World({"base": 0, "tuned": 400})
    # 0.2 / 2 + 0.8 * (0.1 / 2 + 0.9 * 10 / 11)
    score = expected_score(world, "tuned", "base", Simulated("", ties=0.2, error=0.1))
    assert score == pytest.approx(0.1 + 0.8 * (0.05 + 9 / 11))


@pytest.mark.parametrize("reviewer", [Simulated(""), Simulated("", ties=0.2, error=0.3)])
def test_many_votes_have_the_expected_score(reviewer):
    world = World({"base": 0, "tuned": 300}, spread=300)
    scores = [one.score_of_a if one.model_a == "tuned" else 1 - one.score_of_a for one in judged(world, reviewer)]
    # 2,000 votes of a spread below 1/2: three standard errors are 0.034
    assert np.mean(scores) == pytest.approx(expected_score(world, "tuned", "base", reviewer), abs=0.034)


def test_many_votes_give_the_true_ratings():
    world = World({"base": 0, "tuned": 150, "other": -100}, spread=200)
    reviewer = Simulated("", ties=0.1, error=0.1)
    found = rate(judged(world, reviewer), list(world.ratings), "base", rng())
    truth = true_elo(world, "base", reviewer)
    for model in ("tuned", "other"):
        estimate = found.rating(model)
        # twice the interval: four standard errors
        assert abs(estimate.value - truth[model]) < estimate.high - estimate.low


def test_votes_on_one_prompt_share_its_strengths():
    answers = {}
    for one in judged(World({"base": 0, "tuned": 0}, spread=2000), Simulated(""), prompts=300, votes_a_pair=3):
        answers.setdefault(one.pair, []).append(one.choice)
    # gaps have a spread of 2828 Elo: nearly always decided for all
    assert np.mean([len(set(given)) == 1 for given in answers.values()]) > 0.85


def test_random_answers_follow_the_habit_of_sides():
    found = judged(World({"base": 0, "tuned": 900}), Simulated("", error=1, left=0.8))
    assert np.mean([one.chose_left for one in found]) == pytest.approx(0.8, abs=0.03)


def test_repeats_go_to_the_same_reviewers_with_sides_as_scheduled():
    generator = rng()
    pairs = schedule(["base", "tuned"], range(100), [0], 0.1, generator)
    found = simulate(World({"base": 0, "tuned": 0}), pairs, [Simulated("u"), Simulated("v")], 2, generator)
    first = {(one.pair, one.reviewer): one for one in found if one.repeat_of is None}
    repeats = [one for one in found if one.repeat_of is not None]
    assert len(repeats) == 20
    for one in repeats:
        same_side = one.a_was_left == first[one.repeat_of, one.reviewer].a_was_left
        assert same_side != pairs[int(one.pair)].flipped
