from dataclasses import replace
from functools import cache

import pytest
from scipy.stats import binomtest

from backend.preferences.coverage import SCENARIOS, Scenario, measure

SIMULATIONS = 100
CHANCE = 0.001  # that sound intervals fail a test here

# the whole table takes minutes: its small rows, and one with three models made smaller
SMALL = [one for one in SCENARIOS if one.prompts * one.votes_a_pair <= 150 and len(one.ratings) == 2]
SMALL += [replace(one, prompts=20, votes_a_pair=2) for one in SCENARIOS if one.name.startswith("three equal")]
EQUAL = [one for one in SMALL if set(one.ratings.values()) == {0}]


@cache
def measured(number):
    return measure(SMALL[number], SIMULATIONS, seed=1)


def name(scenario):
    return f"{scenario.name}, {scenario.prompts} prompts"


@pytest.mark.parametrize("scenario", SMALL, ids=name)
def test_intervals_hold_the_truth_at_their_rate(scenario):
    found = measured(SMALL.index(scenario))
    # intervals of one simulation depend on each other, so each simulation is one trial
    for held, of in ((found.ratings, found.intervals), (found.win_rates, found.comparisons)):
        assert binomtest(round(SIMULATIONS * held / of), SIMULATIONS, 0.95, "less").pvalue > CHANCE


@pytest.mark.parametrize("scenario", EQUAL, ids=name)
def test_equal_models_are_called_different_at_most_once_in_twenty(scenario):
    found = measured(SMALL.index(scenario))
    called = round(SIMULATIONS * found.decided / found.comparisons)
    assert binomtest(called, SIMULATIONS, 0.05, "greater").pvalue > CHANCE


def test_a_large_difference_is_found():
    found = measure(Scenario("", {"base": 0, "tuned": 600}, prompts=50, votes_a_pair=1, spread=0), 20, seed=0)
    assert found.decided == 20
