import re

import pytest

from frontend_components.page import STATIC

PAIRS = [
    *[(text, ground) for text in ("ink", "quiet", "accent", "bad", "good") for ground in ("ground", "surface")],
    ("ink", "sunk"),
    ("quiet", "sunk"),
    ("accent", "accent-soft"),
    *[(state, state + "-soft") for state in ("good", "warn", "bad", "busy")],
]


def palette(mode: str) -> dict[str, str]:
    text = (STATIC / "theme.css").read_text()
    blocks = re.findall(r'^:root(?:\[data-theme="dark"\])? \{(.*?)^\}', text, re.M | re.S)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    return light | (dark if mode == "dark" else {})


def luminance(colour: str) -> float:
    """WCAG 2.2: sRGB channels made linear, weighted by what the eye sees of them."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_on_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_can_be_read(mode: str, text: str, ground: str):
    colours = palette(mode)
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_button_can_be_read(mode: str):
    for fill in ("accent-fill", "accent-fill-hover"):
        assert contrast("#ffffff", palette(mode)[fill]) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_curves_and_ends_of_the_scale_stand_out(mode: str):
    colours = palette(mode)
    for name in ("neg", "pos", *(f"line-{i}" for i in range(1, 7))):
        assert contrast(colours[name], colours["surface"]) >= 3
