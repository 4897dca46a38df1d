"""A simulated reviewer knows the truth and errs as often as asked."""

import numpy as np
import pytest

from backend.shapes import render
from backend.shapes.prompts import parse
from backend.shapes.reviewer import Reviewer

PROMPT = "a red circle and a blue square"


def drawn(text, seed=0):
    rng = np.random.default_rng(seed)
    return render.draw(render.place(parse(text), rng)).astype(np.float32) / 255


@pytest.fixture(scope="module")
def pictures():
    return {text: drawn(text) for text in (PROMPT, "a red circle", "a green star")}


def chosen(pictures, left, right, error=0.0, count=1):
    stacks = (np.stack([pictures[side]] * count) for side in (left, right))
    return Reviewer(error).choose(*stacks, [PROMPT] * count, np.random.default_rng(0))


def test_the_right_picture_is_preferred_on_either_side(pictures):
    assert chosen(pictures, PROMPT, "a green star") == ["left"]
    assert chosen(pictures, "a green star", PROMPT) == ["right"]


def test_of_two_wrong_ones_the_one_with_more_of_the_prompt(pictures):
    assert chosen(pictures, "a red circle", "a green star") == ["left"]


def test_equal_pictures_are_a_tie_when_right_and_both_bad_when_wrong(pictures):
    assert chosen(pictures, PROMPT, PROMPT) == ["tie"]
    assert chosen(pictures, "a green star", "a green star", error=1.0) == ["both_bad"]


def test_errors_come_at_their_rate(pictures):
    found = chosen(pictures, PROMPT, "a green star", error=0.1, count=400)
    # 40 expected, standard deviation 6
    assert 22 <= found.count("right") <= 58
    assert found.count("right") + found.count("left") == 400
    assert chosen(pictures, PROMPT, "a green star", error=1.0) == ["right"]
