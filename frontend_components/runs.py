"""Runs: every run, newest first, alive."""

from __future__ import annotations

from frontend_components.page import island, masthead


def render() -> None:
    masthead()
    island("runs")
