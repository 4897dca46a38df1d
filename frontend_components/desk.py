"""Review: one reviewer's desk. It has no masthead: nothing on it leads to the runs and their numbers."""

from __future__ import annotations

from frontend_components.page import island


def render() -> None:
    island("desk")
