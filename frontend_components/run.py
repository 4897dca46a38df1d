"""Run: one run from its state to its last log line, with its newest tree growing."""

from __future__ import annotations

from frontend_components.page import island, masthead


def render() -> None:
    masthead()
    island("run")
