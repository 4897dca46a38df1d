"""Window starts as functions of the training step, by hand."""

from __future__ import annotations

import math

import pytest

from backend import tree
from backend.methods.window_schedule import Exponential, Frozen, Linear, Progressive, Random, Schedule

LAST = 20  # of 25 steps and a window of 4, less the deterministic last step


@pytest.mark.parametrize(
    ("step", "start"),
    [(0, 0), (24, 0), (25, 1), (49, 1), (50, 2), (499, 19), (500, 20), (524, 20), (525, 20), (9999, 20)],
)
def test_the_progressive_window_moves_every_tau_steps_and_stays_at_the_end(step: int, start: int) -> None:
    assert Progressive().start(step, LAST) == start
    assert tree.window_start(0, 1, 25, LAST, step) == start


def test_roll_back_begins_again_after_the_last_place() -> None:
    schedule = Progressive(every=2, roll_back=True)
    assert [schedule.start(step, 2) for step in range(14)] == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0]
    assert schedule.start(10**9, 2) == 2  # 10^9 = 4 mod 6


def test_a_stride_that_oversteps_the_end_stops_there() -> None:
    schedule = Progressive(every=1, stride=3)
    assert [schedule.start(step, 7) for step in range(6)] == [0, 3, 6, 7, 7, 7]


def test_exponential_rests_shrink_beyond_the_threshold() -> None:
    schedule = Exponential(every=25, decay=0.1, threshold=13)
    assert [schedule.rest(place, LAST) for place in (0, 13)] == [25, 25]
    assert [schedule.rest(place, LAST) for place in (14, 20)] == [math.ceil(25 * 0.904837), math.ceil(25 * 0.496585)]
    begins = 25 * 14  # places 0 to 13 rest 25 training steps each
    assert [schedule.start(step, LAST) for step in (begins - 1, begins, begins + 22, begins + 23)] == [13, 14, 14, 15]
    steady = Exponential(every=25, threshold=LAST)
    assert [steady.start(step, LAST) for step in range(600)] == [Progressive().start(step, LAST) for step in range(600)]


def test_linear_rests_shrink_to_a_quarter() -> None:
    schedule = Linear(every=24)
    assert [schedule.rest(place, 9) for place in (0, 1, 5, 9)] == [24, 22, 14, 6]  # 24 - 2 a place
    assert [schedule.start(step, 9) for step in (23, 24, 45, 46)] == [0, 1, 1, 2]
    assert Linear(every=1).start(3, 9) == 3


def test_random_places_depend_on_the_step_alone_and_cover_the_grid() -> None:
    starts = [Random().start(step, LAST) for step in range(400)]
    assert starts == [Random().start(step, LAST) for step in range(400)]
    assert set(starts) == set(range(LAST + 1))


def test_frozen_stays_at_the_first_steps() -> None:
    assert {Frozen().start(step, LAST) for step in (0, 1, 10**6)} == {0}


@pytest.mark.parametrize("schedule", [Progressive(), Exponential(), Linear(), Random(), Frozen()])
def test_a_single_place_is_always_taken(schedule: Schedule) -> None:
    assert {schedule.start(step, 0) for step in (0, 30, 1000)} == {0}
