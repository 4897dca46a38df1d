from itertools import product

import numpy as np
import pytest

from backend.benchmarks.two_sample import cubic, kid, median_distance, mmd2, rbf


def drawn(seed, number, shift=0.0, dims=3):
    return np.random.default_rng(seed).normal(size=(number, dims)) + shift


@pytest.mark.parametrize("kernel", [cubic, rbf(1.3)])
def test_mmd_is_the_sum_over_pairs(kernel):
    x, y = drawn(0, 4), drawn(1, 5, shift=0.5)

    def k(a, b):
        return kernel(a[None], b[None])[0, 0]

    within = [np.mean([k(one[i], one[j]) for i, j in product(range(len(one)), repeat=2) if i != j]) for one in (x, y)]
    between = np.mean([k(a, b) for a, b in product(x, y)])
    assert mmd2(x, y, kernel) == pytest.approx(sum(within) - 2 * between)


def test_kernels_have_their_closed_forms():
    x, y = np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]])
    assert cubic(x, y)[0, 0] == pytest.approx((5 / 2 + 1) ** 3)
    assert rbf(2.0)(x, y)[0, 0] == pytest.approx(np.exp(-5 / 8))


def test_mmd_of_gaussians_meets_its_expectation():
    # x ~ N(0, 1), y ~ N(m, 1), RBF of bandwidth b: E k(x, x') = b / sqrt(b^2 + 2), E k(x, y) that times
    # exp(-m^2 / (2 (b^2 + 2))), so MMD^2 = 2 b / sqrt(b^2 + 2) (1 - exp(-m^2 / (2 (b^2 + 2))))
    shift, b = 1.5, 1.0
    expected = 2 * b / np.sqrt(b**2 + 2) * (1 - np.exp(-(shift**2) / (2 * (b**2 + 2))))
    found = [mmd2(drawn(s, 400, dims=1), drawn(s + 100, 400, shift, dims=1), rbf(b)) for s in range(20)]
    assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / np.sqrt(20))


def test_unbiased_mmd_of_one_distribution_averages_to_zero():
    found = [mmd2(drawn(s, 100), drawn(s + 500, 100), cubic) for s in range(60)]
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(60)
    assert min(found) < 0 < max(found)


def test_kid_of_whole_sets_is_the_mmd_of_the_cubic_kernel():
    x, y = drawn(0, 30), drawn(1, 30, shift=0.3)
    mean, std = kid(x, y, np.random.default_rng(0), subsets=3, size=100)
    assert mean == pytest.approx(mmd2(x, y, cubic))
    assert std == pytest.approx(0, abs=1e-12)


def test_kid_grows_with_the_distance_of_the_sets():
    near, far = (kid(drawn(0, 200), drawn(1, 200, shift), np.random.default_rng(0), 10, 100)[0] for shift in (0.1, 1))
    assert far > 10 * abs(near)


def test_bandwidth_is_the_median_distance():
    assert median_distance(np.array([[0.0]]), np.array([[1.0], [2.0], [5.0]])) == 2


def test_one_sample_has_no_pairs():
    with pytest.raises(ValueError, match="1 and 3 samples have no pairs"):
        mmd2(drawn(0, 1), drawn(0, 3), cubic)
