"""The direction of imports, and the size of the entry point."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "backend": {"backend"},
    "db": {"db"},
    "workers": {"workers", "backend", "db"},
    "frontend_components": {"frontend_components", "workers", "backend", "db"},
}
LATE = {"diffusers", "transformers", "peft", "accelerate"}
SOURCES = [path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py")]


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downwards(path):
    package = path.relative_to(ROOT).parts[0]
    ours = set(imported(ast.parse(path.read_text()))) & set(MAY_IMPORT)
    assert ours <= MAY_IMPORT[package]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_model_libraries_are_imported_inside_functions(path):
    at_top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not LATE & set(imported(ast.Module(at_top, [])))


def test_entry_point_stays_small():
    assert len((ROOT / "app.py").read_text().splitlines()) <= 80
