"""Tree: the rollout of one prompt at one training step, node by node."""

from __future__ import annotations

from frontend_components.page import island, masthead


def render() -> None:
    masthead()
    island("treepage")
