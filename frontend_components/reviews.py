"""Reviews: the sets of pairs to judge, how far they are, and the links of their reviewers."""

from __future__ import annotations

from frontend_components.page import island, masthead


def render() -> None:
    masthead()
    island("reviews")
