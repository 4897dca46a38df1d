"""Launch: a preset, a form and its YAML, what the run will cost, and the button."""

from __future__ import annotations

from frontend_components.page import island, masthead


def render() -> None:
    masthead()
    island("launch")
