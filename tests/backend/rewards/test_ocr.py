"""OCR: the distance by hand, and real recognition of rendered text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from backend.rewards import ocr
from backend.rewards.judging import RewardFailed
from backend.rewards.ocr import OCR


def sign(*lines: str, size: int = 256) -> Tensor:
    """[1, 3, H, W]: black text on white."""
    image = Image.new("RGB", (size, size), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=36)
    for number, line in enumerate(lines):
        draw.text((20, 40 + 70 * number), line, fill="black", font=font)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255


def test_T44_an_exact_match_and_a_substring_are_1() -> None:
    assert ocr.similarity("hello", "hello") == 1.0
    assert ocr.similarity("say hello to all", "hello") == 1.0


def test_T44_nothing_read_is_0() -> None:
    assert ocr.similarity("", "hello") == 0.0


def test_T44_the_distance_is_capped_at_the_length_of_the_target() -> None:
    assert ocr.distance("a much longer text", "abc") > 3
    assert ocr.similarity("a much longer text", "abc") == 0.0


def test_T44_case_and_spaces_do_not_count() -> None:
    assert ocr.similarity("He llo\nWORLD", "hello world") == 1.0


def test_T44_each_wrong_letter_costs_its_share() -> None:
    assert ocr.similarity("helpo", "hello") == pytest.approx(1 - 1 / 5)
    assert ocr.similarity("hllo", "hello") == pytest.approx(1 - 1 / 5)


@pytest.mark.parametrize(
    ("first", "second", "expected"), [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "abc", 0), ("ab", "ba", 2)]
)
def test_levenshteins_distance(first: str, second: str, expected: int) -> None:
    assert ocr.distance(first, second) == ocr.distance(second, first) == expected


def test_the_target_is_the_first_quoted_text_unless_metadata_names_one() -> None:
    assert ocr.target('a sign that says "Open Now" and "Closed"', {}) == "Open Now"
    assert ocr.target("a sign that says “Open”", {}) == "Open"
    assert ocr.target('a sign that says "Open"', {"text": "Shut"}) == "Shut"
    assert ocr.target("a sign", {}) is None
    assert ocr.target('a sign that says " "', {}) is None


def test_rendered_text_is_read() -> None:
    assert ocr.plain(ocr.read((sign("HELLO", "WORLD")[0].permute(1, 2, 0) * 255).byte().numpy())) == "helloworld"


def test_the_right_text_scores_1_another_less_and_a_blank_picture_0() -> None:
    frames = torch.stack([sign("OPEN"), sign("OPENING"), sign("BREAD"), sign()])
    found = OCR().score(frames, ['a shop with a sign "Open"'] * 4, [{}] * 4)
    assert found.dtype == torch.float64
    assert found[:2].tolist() == [1.0, 1.0]
    assert float(found[2]) < 0.5
    assert float(found[3]) == 0.0


def test_metadata_may_name_the_text_and_a_prompt_without_one_is_not_judged() -> None:
    found = OCR().score(torch.stack([sign("OPEN")] * 2), ["a shop", "a shop"], [{"text": "open"}, {}])
    assert float(found[0]) == 1.0
    assert found[1].isnan()
    with pytest.raises(RewardFailed, match="no prompt says which text to show"):
        OCR().score(sign("OPEN")[None], ["a shop"], [{}])


def test_a_video_is_the_mean_of_its_frames() -> None:
    video = torch.cat([sign("OPEN"), sign()])[None]
    assert OCR().score(video, ['a sign "open"'], [{}]).tolist() == [0.5]
