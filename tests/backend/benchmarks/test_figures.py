import numpy as np
import pytest

from backend.benchmarks import figures
from backend.benchmarks.figures import Line, Panel


def test_seeds_are_averaged_over_the_places_they_share():
    places, mean, low, high = figures.averaged([([0, 10], [0, 10]), ([0, 5], [2, 7])])
    assert (places[0], places[-1]) == (0, 5)
    np.testing.assert_allclose(mean, places + 1)
    np.testing.assert_allclose(low, places)
    np.testing.assert_allclose(high, places + 2)


def test_panels_draw_a_line_a_variant_and_a_level():
    lines = (Line("a", (([0, 1], [0, 1]), ([0, 1], [1, 2]))), Line("b", (([0, 1], [1, 0]),)))
    figure = figures.curves([Panel("s", "strict", lines, title="t", level=0.7)])
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines][:2] == ["a", "b"]
    np.testing.assert_allclose(axes.lines[0].get_ydata()[[0, -1]], [0.5, 1.5])
    assert list(axes.lines[2].get_ydata()) == [0.7, 0.7]
    assert axes.get_ylabel() == "strict"


def test_the_shared_legend_names_lines_that_only_one_panel_has():
    first, second = Line("a", (([0, 1], [0, 1]),)), Line("b", (([0, 1], [1, 0]),))
    figure = figures.curves([Panel("s", "reward", (first,)), Panel("s", "strict", (first, second))])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_bars_are_means_with_whiskers_to_the_extremes():
    (axes,) = figures.bars({"a": [1, 3], "b": [5]}, "s").axes
    assert [patch.get_width() for patch in axes.patches] == [2, 5]
    segments = axes.collections[0].get_segments()
    assert [(one[0][0], one[1][0]) for one in segments] == [(1, 3), (5, 5)]


def test_a_saved_figure_is_an_svg_with_text(tmp_path):
    figures.save(figures.bars({"branchgrpo": [1.0]}, "seconds"), tmp_path / "f" / "a.svg")
    text = (tmp_path / "f" / "a.svg").read_text()
    assert "branchgrpo</text>" in text
    assert "<dc:date>" not in text


@pytest.mark.parametrize("number", [1, 7, 14])
def test_fourteen_methods_can_be_told_apart(number):
    assert len({figures._style(i) for i in range(number)}) == number
