"""Tables and paragraphs of the document."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 120


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def paragraph(text: str) -> str:
    """One paragraph, filled to the width of the project's documents."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def settings(overrides: Sequence[str], otherwise: str) -> str:
    return ", ".join(f"`{one}`" for one in overrides) or otherwise


def section(title: str, *parts: str) -> str:
    return "\n\n".join([f"## {title}", *parts])
