"""Leaderboard: what the votes of one review set say about its models, its reviewers and the rewards."""

from __future__ import annotations

from frontend_components.page import island, masthead


def render() -> None:
    masthead()
    island("leaderboard")
