import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import beta

from backend.preferences.bradley_terry import ELO, fit, rate, win_counts
from tests.backend.preferences.votes import vote, votes


def rng():
    return np.random.default_rng(0)


def elo_of(share):
    return 1000 + ELO * np.log(share / (1 - share))


def test_wins_are_counted_by_prompt_with_ties_as_halves():
    judged = [vote("b", prompt="p"), vote("tie", prompt="p"), vote("a", prompt="q"), vote("both_bad", prompt="q")]
    wins = win_counts(judged, ["base", "tuned"])
    assert wins.tolist() == [[[0, 0.5], [1.5, 0]], [[0, 1.5], [0.5, 0]]]


def test_400_elo_are_odds_of_ten():
    theta = fit(np.array([[0.0, 10], [1, 0]]))
    assert ELO * (theta[0] - theta[1]) == pytest.approx(400)


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_the_maximum_of_the_likelihood(seed):
    wins = np.random.default_rng(seed).gamma(0.5, 20, (5, 5)) * (1 - np.eye(5))

    def loss(free):
        theta = np.concatenate([[0.0], free])
        return float((wins * np.logaddexp(0, theta[None, :] - theta[:, None])).sum())

    expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
    theta = fit(wins)
    assert theta[1:] - theta[0] == pytest.approx(expected, abs=1e-5)


def test_many_fits_at_once_are_those_one_by_one():
    wins = rng().gamma(0.3, 10, (50, 4, 4)) * (1 - np.eye(4))
    together = fit(wins)
    for one, theta in zip(wins, together, strict=True):
        assert theta - theta[0] == pytest.approx(fit(one) - fit(one)[0], abs=1e-6)


def test_extreme_counts_converge():
    theta = fit(np.array([[0, 1e6, 1e-6], [1e-6, 0, 1e6], [1e-6, 1e-6, 0]]))
    # symmetric under exchange of first with last and of wins with losses
    assert theta[0] - theta[1] == pytest.approx(theta[1] - theta[2])
    assert theta[0] - theta[1] > 10


def test_a_tie_is_half_a_win_for_both():
    models = ["base", "tuned"]
    tied = rate([vote("tie", pair="1", prompt="p"), vote("tie", pair="2", prompt="p")], models, "base", rng())
    split = rate([vote("a", pair="1", prompt="p"), vote("b", pair="2", prompt="p")], models, "base", rng())
    assert np.array_equal(tied.elo, split.elo)
    assert np.array_equal(tied.resampled, split.resampled)


def test_the_base_stands_at_1000_and_adding_to_all_changes_nothing():
    judged = votes("aabab") + votes("bbbab", b="third") + votes("abb", a="tuned", b="third")
    found = {base: rate(judged, ["base", "tuned", "third"], base, rng()) for base in ("base", "third")}
    assert found["base"].rating("base").model_dump() == {"value": 1000, "low": 1000, "high": 1000}
    assert found["third"].rating("third").value == 1000
    same = [found[base].difference("tuned", "base").model_dump() for base in ("base", "third")]
    assert same[0] == pytest.approx(same[1])


def test_ratings_of_two_models_are_odds_of_the_shares_with_half_a_prompt_more():
    # tuned wins 6 of 8: (6 + 1/2) / (8 + 1)
    found = rate(votes("bbabbabb"), ["base", "tuned"], "base", rng())
    assert found.rating("tuned").value == pytest.approx(elo_of(6.5 / 9))


@pytest.mark.parametrize(("wins", "losses"), [(30, 70), (12, 0), (95, 5)])
def test_with_one_vote_a_prompt_the_interval_is_that_of_jeffreys(wins, losses):
    found = rate(votes("b" * wins + "a" * losses), ["base", "tuned"], "base", rng()).rating("tuned")
    low, high = beta.ppf([0.025, 0.975], wins + 0.5, losses + 0.5)
    # quantiles of 1,000 draws: within a tenth of the share's interval
    drawn = [1 / (1 + np.exp((1000 - edge) / ELO)) for edge in (found.low, found.high)]
    assert drawn == pytest.approx([low, high], abs=0.1 * (high - low))


def test_votes_that_copy_each_other_add_nothing():
    judged = votes("bbabbbabbbbabbab")
    copied = [vote(one.choice, pair=one.pair, reviewer=str(n)) for one in judged for n in range(5)]
    once, five = (rate(some, ["base", "tuned"], "base", rng()) for some in (judged, copied))
    assert once.rating("tuned").model_dump() == pytest.approx(five.rating("tuned").model_dump())


def test_votes_on_many_prompts_narrow_the_interval():
    few, many = (rate(votes("bba" * count), ["base", "tuned"], "base", rng()).rating("tuned") for count in (10, 160))
    # 16 times the prompts: a quarter of the width
    assert (many.high - many.low) / (few.high - few.low) == pytest.approx(1 / 4, abs=0.04)


def test_order_of_votes_and_models_and_sides_do_not_matter_to_ratings():
    judged = votes("aabab") + votes("bbbab", b="third")
    swapped = [vote({"a": "b", "b": "a"}[one.choice], one.pair, a=one.model_b, b=one.model_a) for one in judged[::-1]]
    first = rate(judged, ["base", "tuned", "third"], "base", rng())
    second = rate(swapped, ["third", "base", "tuned"], "base", rng())
    for model in ("tuned", "third"):
        assert first.rating(model).value == pytest.approx(second.rating(model).value)


def test_models_without_a_chain_to_the_base_have_no_rating():
    judged = votes("ab") + votes("ab", a="tuned", b="third") + votes("aa", a="far", b="away")
    found = rate(judged, ["base", "tuned", "third", "far", "away"], "base", rng())
    assert [found.rating(model) is None for model in found.models] == [False, False, False, True, True]
    assert found.difference("far", "away") is None
    assert found.difference("third", "tuned") is not None


def test_equal_seeds_give_equal_intervals():
    first, second = (rate(votes("aababb"), ["base", "tuned"], "base", rng()).rating("tuned") for _ in range(2))
    assert first == second


def test_prompts_beyond_one_block_count_too():
    found = rate(votes("b" * 1200 + "a" * 400), ["base", "tuned"], "base", rng()).rating("tuned")
    assert found.value == pytest.approx(elo_of(1200.5 / 1601))
    assert found.low < found.value < found.high


def test_a_model_that_is_not_listed_is_refused():
    with pytest.raises(ValueError, match="'tuned' was judged"):
        rate(votes("a"), ["base"], "base", rng())
    with pytest.raises(ValueError, match="base: 'nobody'"):
        rate(votes("a"), ["base", "tuned"], "nobody", rng())
