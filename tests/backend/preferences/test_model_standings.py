import numpy as np
import pytest

from backend.preferences.bradley_terry import rate
from backend.preferences.model_standings import Model, comparisons, model_standings
from backend.preferences.reward_agreement import PairScores
from backend.preferences.standing_record import Outcomes
from backend.preferences.wilson import share
from tests.backend.preferences.votes import vote, votes

MODELS = [Model("base", "base"), Model("tuned", "run 7 step 260", "7", 260), Model("third", "third")]


def found_in(judged, models=MODELS, scores=None):
    ratings = rate(judged, [model.key for model in models], "base", np.random.default_rng(0))
    compared = comparisons(judged, models, ratings)
    return {one.key: one for one in model_standings(judged, models, "base", ratings, compared, scores or {})}


def compared_in(judged, models=MODELS):
    return comparisons(judged, models, rate(judged, [model.key for model in models], "base", np.random.default_rng(0)))


def test_outcomes_and_win_rates_are_from_the_side_of_the_model():
    found = found_in(votes("bbabtx") + votes("ab", a="tuned", b="third"))
    assert found["tuned"].outcomes == Outcomes(wins=4, losses=2, ties=1, both_bad=1)
    assert found["tuned"].outcomes.votes == 8
    # 4 wins and 2 halves of 8 votes; against the base 3 wins and 2 halves of 6
    assert found["tuned"].win_rate.value == 5 / 8
    assert found["tuned"].over_base.value == pytest.approx(4 / 6)
    assert found["base"].outcomes == Outcomes(wins=1, losses=3, ties=1, both_bad=1)
    assert found["base"].over_base is found["third"].over_base is None
    assert found["tuned"].prompts == 6


def test_a_win_rate_without_ties_has_the_interval_of_wilson():
    assert found_in(votes("bbab"))["tuned"].win_rate.model_dump() == pytest.approx(share(3, 4).model_dump())


def test_models_come_with_the_highest_rating_first_and_those_without_last():
    found = found_in(votes("bbbab") + votes("aaaab", b="third"), [*MODELS, Model("far", "far")])
    assert list(found) == ["tuned", "base", "third", "far"]
    assert (found["tuned"].label, found["tuned"].run, found["tuned"].step) == ("run 7 step 260", "7", 260)
    assert (found["far"].rating, found["far"].rank_best, found["far"].win_rate) == (None, None, None)


def test_ranks_are_given_where_no_interval_overlaps():
    found = found_in(votes("b" * 90 + "a" * 10) + votes("a" * 85 + "b" * 15, b="third"))
    assert [one.rank for one in found.values()] == [1, 2, 3]


def test_no_rank_where_intervals_overlap():
    # tuned and third each beat the base by far, and are equal
    judged = votes("b" * 90 + "a" * 10) + votes("b" * 90 + "a" * 10, b="third") + votes("ab" * 50, a="tuned", b="third")
    found = found_in(judged)
    assert [(found[key].rank, found[key].rank_best, found[key].rank_worst) for key in ("tuned", "third", "base")] == [
        (None, 1, 2),
        (None, 1, 2),
        (3, 3, 3),
    ]


def test_the_only_rated_model_has_no_rank():
    assert found_in([])["base"].rank is None


def test_a_comparison_is_decided_by_interval_and_exact_test():
    (decided,) = compared_in(votes("b" * 65 + "a" * 35))
    assert (decided.model_a, decided.model_b, decided.prompts) == ("base", "tuned", 100)
    assert decided.outcomes == Outcomes(wins=35, losses=65)
    # 2 * P(Binomial(100, 1/2) <= 35)
    assert decided.p_value == pytest.approx(0.003518, abs=1e-6)
    assert decided.difference.high < 0
    assert decided.decided


def test_a_comparison_whose_exact_test_says_no_gives_no_rank_either():
    # 40 of 100: Jeffreys' interval ends at 0.498, but 2 * P(Binomial(100, 1/2) <= 40) = 0.0569
    judged = votes("b" * 60 + "a" * 40)
    (close,) = compared_in(judged)
    assert close.p_value == pytest.approx(0.0569, abs=1e-4)
    assert not close.decided
    assert found_in(judged, MODELS[:2])["tuned"].rank is None


def test_votes_that_copy_each_other_do_not_decide():
    copied = [vote("b", pair="1", reviewer=str(number)) for number in range(50)]
    (found,) = compared_in(copied)
    assert found.p_value == 1
    assert not found.decided


def test_means_of_rewards_are_over_judged_pairs_each_once():
    judged = [vote("a", "0"), vote("b", "0", reviewer="bob"), vote("a", "1")]
    scores = {
        "0": PairScores({"r": 1.0}, {"r": 3.0}),
        "1": PairScores({"r": 2.0}, {"r": 5.0, "s": 1.0}),
        "2": PairScores({"r": 9.0}, {"r": 9.0}),
    }
    found = found_in(judged, scores=scores)
    assert found["base"].mean_scores == {"r": 1.5}
    assert found["tuned"].mean_scores == {"r": 4.0, "s": 1.0}
    assert found["third"].mean_scores == {}
