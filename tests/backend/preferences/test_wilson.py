import numpy as np
import pytest
from scipy.stats import t

from backend.preferences.wilson import clustered_share, share


def test_wilson_on_a_textbook_case():
    # Newcombe (1998), table I: 81 of 263 gives 0.2553 to 0.3662
    found = share(81, 263)
    assert (found.value, found.low, found.high) == pytest.approx((81 / 263, 0.2553, 0.3662), abs=5e-5)


def test_no_votes_have_no_share():
    assert share(0, 0) is None
    assert clustered_share([], []) is None


@pytest.mark.parametrize(("successes", "count"), [(0, 7), (3, 10), (10, 10), (50, 200)])
def test_one_vote_a_cluster_is_the_plain_interval(successes, count):
    found = clustered_share([1.0] * successes + [0.0] * (count - successes), [str(i) for i in range(count)])
    plain = share(successes, count)
    assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high), abs=1e-12)


def test_votes_that_copy_each_other_count_once_a_cluster():
    # 40 clusters of 5 equal votes, half of them wins: residuals sum to 2.5 a cluster, so the design effect is
    # 40 * 2.5^2 * 40 / 39 / (200 * 0.25) = 5.128, and 200 / 5.128 = 39 votes remain before Student's factor
    scores = np.repeat([0.0, 1.0] * 20, 5)
    found = clustered_share(scores.tolist(), np.repeat(np.arange(40), 5).astype(str).tolist())
    z = 1.959964
    count = 39 * (z / t.ppf(0.975, 39)) ** 2
    half = z * np.sqrt(0.25 / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)
    assert half > (share(100, 200).high - 0.5) * np.sqrt(5)


def test_equal_votes_everywhere_count_once_a_cluster():
    # nothing tells how much votes on one prompt depend on each other, so 10 prompts of 3 wins are 10 wins
    found = clustered_share([1.0] * 30, [str(i // 3) for i in range(30)])
    assert (found.low, found.high) == pytest.approx((share(10, 10).low, 1))


def test_votes_on_one_prompt_are_one_vote():
    found = clustered_share([1.0] * 15 + [0.0] * 5, ["only"] * 20)
    assert found.low < 0.2
    assert found.high > 0.98


def test_order_of_votes_and_names_of_clusters_do_not_matter():
    scores, clusters = [1, 0, 1, 0.5, 1, 0], ["p", "p", "q", "q", "r", "s"]
    turned = clustered_share(scores[::-1], [name.upper() for name in clusters[::-1]])
    assert turned.model_dump() == pytest.approx(clustered_share(scores, clusters).model_dump())
