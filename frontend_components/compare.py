"""Compare: base and tuned model side by side, on the same prompts and seeds."""

from __future__ import annotations

from frontend_components.page import island, masthead


def render() -> None:
    masthead()
    island("compare")
