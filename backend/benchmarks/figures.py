"""Figures of the document: arrays in, SVG files out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
DASHES = ("-", "--")
GRID_POINTS = 60


@dataclass(frozen=True)
class Line:
    """One variant: a curve (places, heights) for each seed."""

    name: str
    curves: tuple[tuple[Sequence[float], Sequence[float]], ...]


@dataclass(frozen=True)
class Panel:
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    title: str = ""
    level: float | None = None


def averaged(curves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[Array, Array, Array, Array]:
    """(places, mean, least, greatest) over the places that all curves cover, each linear between its points."""
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    places = np.linspace(start, end, GRID_POINTS)
    heights = np.stack([np.interp(places, x, y) for x, y in curves])
    return places, heights.mean(0), heights.min(0), heights.max(0)


def curves(panels: Sequence[Panel], columns: int = 3, shared_legend: bool = True) -> Figure:
    """A grid of panels; a band spans the seeds. With a shared legend, a name has one colour in all panels."""
    rows = -(-len(panels) // columns)
    figure = _figure(4.2 * columns + (2 if shared_legend else 0), 3.2 * rows)
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        own = names if shared_legend else [line.name for line in panel.lines]
        _draw(axes, panel, {name: _style(i) for i, name in enumerate(own)})
        if not shared_legend:
            axes.legend(fontsize=7, frameon=False)
    if shared_legend and names:
        drawn = [axes.get_legend_handles_labels() for axes in figure.axes]
        handles = {label: handle for some in drawn for handle, label in zip(*some, strict=True)}
        figure.legend([handles[name] for name in names], names, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _draw(axes: Axes, panel: Panel, styles: Mapping[str, tuple[str, str]]) -> None:
    for line in panel.lines:
        color, dash = styles[line.name]
        places, mean, low, high = averaged(line.curves)
        axes.plot(places, mean, dash, color=color, label=line.name, linewidth=1.6)
        if len(line.curves) > 1:
            axes.fill_between(places, low, high, color=color, alpha=0.1, linewidth=0)
    if panel.level is not None:
        axes.axhline(panel.level, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def bars(values: Mapping[str, Sequence[float]], x_label: str) -> Figure:
    """A horizontal bar for each name: the mean, with a whisker from the least to the greatest value."""
    figure = _figure(7.5, 0.6 + 0.36 * len(values))
    axes = figure.add_subplot()
    means = [float(np.mean(one)) for one in values.values()]
    below = [mean - min(one) for mean, one in zip(means, values.values(), strict=True)]
    above = [max(one) - mean for mean, one in zip(means, values.values(), strict=True)]
    axes.barh(list(values), means, xerr=np.array([below, above]), color=COLORS[0], height=0.6, ecolor="#444444")
    axes.invert_yaxis()
    axes.set_xlabel(x_label)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def save(figure: Figure, path: Path) -> None:
    """An SVG file that is the same for the same figure."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "espalier", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _style(place: int) -> tuple[str, str]:
    return COLORS[place % len(COLORS)], DASHES[place // len(COLORS) % len(DASHES)]


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            "bench methods draws with matplotlib, which is not here: run .venv/bin/pip install -e '.[bench]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")
