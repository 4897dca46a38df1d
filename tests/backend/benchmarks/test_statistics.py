import pytest

from backend.benchmarks.statistics import Spread, compare, paired_ratios, ratios, spread, time_to


def test_time_to_target_is_linear_between_evaluations():
    # 0.4 at 100 s and 0.8 at 200 s: 0.7 is three quarters of the way
    assert time_to(0.7, [0, 100, 200], [0.3, 0.4, 0.8]) == pytest.approx(175)


def test_first_crossing_counts_even_if_the_curve_falls_again():
    assert time_to(0.5, [0, 10, 20, 30], [0.0, 1.0, 0.0, 1.0]) == pytest.approx(5)


def test_a_curve_that_starts_at_the_target_needs_no_time():
    assert time_to(0.5, [0, 10], [0.5, 0.2]) == 0


def test_a_target_that_is_not_reached_has_no_time():
    assert time_to(0.9, [0, 10], [0.5, 0.89]) is None


def test_ratio_of_means_with_the_range_over_all_pairs_of_seeds():
    # means 30 and 10; pairs 20/12, 20/8, 40/12, 40/8
    assert ratios([20, 40], [12, 8]) == Spread(3.0, 20 / 12, 5.0, 4)
    assert ratios([], [1]) is None


def test_ratios_within_rounds_do_not_see_a_slow_round():
    assert paired_ratios([2, 20], [1, 10]) == Spread(2.0, 2.0, 2.0, 2)


def test_words_show_a_range_only_of_several():
    assert spread([0.5, 0.7]).words(".2f") == "0.60 (0.50 to 0.70)"
    assert spread([0.5]).words(".2f", " s") == "0.50 s"
    assert spread([]) is None


@pytest.mark.parametrize(
    ("better", "worse", "verdict"),
    [
        ([0.8, 0.9], [0.6, 0.7], "yes"),
        ([0.6, 0.9], [0.5, 0.7], "unclear"),
        ([0.5, 0.6], [0.7, 0.8], "no"),
        ([], [0.7], "not measured"),
        ([0.9], [0.7, 0.8], "unclear"),
    ],
)
def test_a_comparison_needs_ranges_that_do_not_overlap(better, worse, verdict):
    assert compare(better, worse) == verdict
