"""The Bradley-Terry head: what it must find on data whose truth is known."""

import numpy as np
import pytest

from backend.rewards.preference_fit import held_out, weights


def preferences(truth, count, seed=0):
    """Differences better less worse, of pairs decided by P = sigmoid(truth . d)."""
    rng = np.random.default_rng(seed)
    difference = rng.standard_normal((count, len(truth)))
    first = rng.random(count) < 1 / (1 + np.exp(-difference @ truth))
    return np.where(first[:, None], difference, -difference)


def test_weights_approach_the_truth():
    truth = np.array([1.0, -0.5, 0.0])
    np.testing.assert_allclose(weights(preferences(truth, 40_000), penalty=1e-6), truth, atol=0.05)


def test_weights_are_where_the_slope_is_zero():
    difference = preferences(np.array([1.0, -0.5]), 200)
    found = weights(difference, penalty=3.0)
    slope = -difference.T @ (1 / (1 + np.exp(difference @ found))) + 3.0 * found
    np.testing.assert_allclose(slope, 0, atol=1e-3)


def test_a_large_penalty_leaves_nothing():
    assert np.abs(weights(preferences(np.array([2.0]), 100), penalty=1e9)).max() < 1e-6


def test_held_out_accuracy_is_near_that_of_the_truth():
    truth = np.array([3.0, -3.0])
    difference = preferences(truth, 2000)
    found = held_out(difference, [str(i) for i in range(2000)], np.random.default_rng(0))
    best = (difference @ truth > 0).mean()
    assert found.low < best < found.high
    assert found.value == pytest.approx(best, abs=0.02)


def test_features_that_say_nothing_are_at_chance():
    rng = np.random.default_rng(1)
    found = held_out(rng.standard_normal((600, 20)), [str(i) for i in range(600)], rng)
    assert found.low < 0.5 < found.high


def test_pairs_of_one_prompt_are_held_out_together():
    # each prompt's preference follows a feature of its own, which pairs of other prompts do not show
    difference = np.repeat(np.eye(50), 8, axis=0)
    prompts = [str(i) for i in range(50) for _ in range(8)]
    assert held_out(difference, prompts, np.random.default_rng(0)).value == 0.5


def test_too_few_prompts_are_refused():
    with pytest.raises(ValueError, match="decided pairs of 4 prompts are too few"):
        held_out(np.ones((8, 1)), list("aabbccdd"), np.random.default_rng(0))
