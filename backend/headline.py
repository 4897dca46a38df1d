"""The numbers that a held-out evaluation is summed up by, wherever there is room for a line."""

from __future__ import annotations

from typing import Any


def headline(report: dict[str, Any]) -> dict[str, str]:
    """Strict accuracy where prompts have one, else each reward: mean and 95 % interval, by name."""
    strict = report.get("strict_accuracy")
    shown = {"strict accuracy": strict["overall"]} if strict else report["rewards"]
    return {name: interval(value) for name, value in shown.items()}


def interval(value: dict[str, Any]) -> str:
    if value["mean"] is None:
        return "could not be judged"
    return f"{value['mean']:.4f} [{value['low']:.4f}, {value['high']:.4f}]"
