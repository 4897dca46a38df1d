import numpy as np
import pytest
from scipy.stats import binomtest

from backend.preferences.sign_flip import sign_flip


@pytest.mark.parametrize(("wins", "losses"), [(10, 0), (60, 40), (5, 5), (3, 17)])
def test_one_vote_a_prompt_is_the_sign_test(wins, losses):
    found = sign_flip([1] * wins + [-1] * losses + [0] * 4)
    assert found == pytest.approx(binomtest(wins, wins + losses).pvalue, abs=1e-12)


def test_small_case_counted_by_hand():
    # +-3 +-1 +-1: sums 5, 3, 3, 1 and their opposites; observed 3 + 1 - 1 = 3, so 6 of 8 are as far from 0
    assert sign_flip([3, 1, -1]) == pytest.approx(6 / 8)


def test_votes_that_copy_each_other_do_not_count_twice():
    assert sign_flip([5] * 6 + [-5] * 2) == pytest.approx(sign_flip([1] * 6 + [-1] * 2))


def test_all_flips_tried_one_by_one_give_the_same():
    net = np.random.default_rng(0).integers(-4, 6, 10)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 10)).reshape(10, -1)
    assert sign_flip(net.tolist()) == pytest.approx((abs(net @ signs) >= abs(net.sum())).mean())


def test_no_votes_prove_nothing():
    assert sign_flip([]) == sign_flip([0, 0]) == 1
