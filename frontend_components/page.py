"""The frame that every page stands in: the masthead, and a place that a script of static/ fills.

Templates are constant text. What a run or a person wrote reaches the page as JSON and is set as text content, because
Gradio evaluates what stands between its template marks.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr

STATIC = Path(__file__).parent / "static"
HEAD = """
<meta name="color-scheme" content="light dark">
<link rel="icon" href="ui/mark.svg" type="image/svg+xml">
<link rel="stylesheet" href="ui/theme.css">
<link rel="stylesheet" href="ui/controls.css">
<link rel="stylesheet" href="ui/layout.css">
<link rel="stylesheet" href="ui/runs.css">
<link rel="stylesheet" href="ui/tree.css">
<link rel="stylesheet" href="ui/compare.css">
<link rel="stylesheet" href="ui/launch.css">
<link rel="stylesheet" href="ui/reviews.css">
<link rel="stylesheet" href="ui/desk.css">
<link rel="stylesheet" href="ui/leaderboard.css">
<script src="ui/early.js"></script>
"""


def island(script: str) -> gr.HTML:
    """An empty element that `mount(element)` of static/<script>.js fills and keeps alive."""
    return gr.HTML(
        html_template='<div class="island"></div>',
        js_on_load=f'import(new URL("ui/{script}.js", document.baseURI).href)'
        '.then((page) => page.mount(element.querySelector(".island")))',
        apply_default_css=False,
        elem_classes=["island-host"],
    )


def masthead() -> gr.HTML:
    return island("masthead")
