"""GenEval's rules by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from backend.rewards.geneval_rules import Box, Clause, Found, clauses, judge, relations

LEFT, RIGHT, ABOVE = (0, 40, 20, 60), (80, 40, 100, 60), (40, 0, 60, 20)


def things(*boxes: Box, colour: str = "red") -> list[Found]:
    return [Found(box, 0.9, lambda: colour) for box in boxes]


@pytest.mark.parametrize(("number", "expected"), [(3, 1.0), (2, 2 / 3), (4, 2 / 3), (0, 0.0), (16, 1 - 13 / 3)])
def test_T44_a_count_is_1_less_the_share_that_is_wrong(number: int, expected: float) -> None:
    graded, strict = judge([Clause("clock", 3)], {"clock": things(*[LEFT] * number)})
    assert graded == pytest.approx(expected)
    assert strict == (number == 3)


def test_T44_colours_count_only_when_the_number_is_right() -> None:
    asked = [Clause("car", 2, "blue")]
    both = things(LEFT, colour="blue") + things(RIGHT, colour="red")
    assert judge(asked, {"car": both}) == (pytest.approx((1 + 0.5) / 2), False)
    assert judge(asked, {"car": things(LEFT, RIGHT, colour="blue")}) == (1.0, True)
    assert judge(asked, {"car": things(LEFT, colour="blue")}) == (pytest.approx((0.5 + 0) / 2), False)


def test_T44_a_place_holds_or_not_and_a_wrong_one_is_a_single_0() -> None:
    asked = [Clause("dog", 1), Clause("cat", 1, position=("right of", 0))]
    assert judge(asked, {"dog": things(LEFT), "cat": things(RIGHT)}) == (1.0, True)
    assert judge(asked, {"dog": things(RIGHT), "cat": things(LEFT)}) == (pytest.approx(2 / 3), False)
    # without the dog its count is 0, and so is the place
    assert judge(asked, {"cat": things(RIGHT)}) == (pytest.approx(1 / 3), False)
    # without the cat: the dog 1, the cat's count 0, and one 0 for its place
    assert judge(asked, {"dog": things(LEFT)}) == (pytest.approx(1 / 3), False)


def test_colours_are_asked_only_where_they_matter() -> None:
    def never() -> str:
        raise AssertionError

    assert judge([Clause("dog", 1)], {"dog": [Found(LEFT, 0.9, never)], "cat": [Found(LEFT, 0.9, never)]}) == (
        1.0,
        True,
    )


def test_relations_are_those_of_the_centres() -> None:
    assert relations(LEFT, RIGHT) == {"left of"}
    assert relations(RIGHT, LEFT) == {"right of"}
    assert relations(ABOVE, LEFT) == {"above", "right of"}  # 40 across and 40 up, less 4: 36 / 56.6 = 0.64 each
    assert relations(LEFT, LEFT) == set()


def test_a_small_offset_lies_in_the_dead_zone() -> None:
    assert relations((0, 0, 20, 20), (4, 0, 24, 20)) == set()  # 4 = 0.1 (20 + 20)
    assert relations((0, 0, 20, 20), (6, 0, 26, 20)) == set()  # (6 - 4) / 6 = 0.33
    assert relations((0, 0, 20, 20), (9, 0, 29, 20)) == {"left of"}  # (9 - 4) / 9 = 0.56


def test_metadata_is_read_as_geneval_writes_it() -> None:
    include = [{"class": "dog", "count": 1}, {"class": "cat", "count": 2, "color": "red", "position": ["above", 0]}]
    assert clauses(include) == [Clause("dog", 1), Clause("cat", 2, "red", ("above", 0))]


@pytest.mark.parametrize(
    "wrong",
    [
        "dog",
        3,
        [{"class": "dog"}],
        [{"class": "dog", "count": 0}],
        [{"class": "dog", "count": 1, "position": ["above", 1]}],
    ],
)
def test_metadata_of_another_form_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=re.escape("include: ")):
        clauses(wrong)
