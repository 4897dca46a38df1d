"""Methods, their presets and docs/methods.md say the same."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from backend import config
from backend.methods_table import DOCUMENT, filled, methods

BACKEND = Path(__file__).parent.parent / "backend"
TEXT = DOCUMENT.read_text(encoding="utf-8")
PAPER = [name for name in config.preset_names() if name.startswith("paper-")]
NAMES = {"name", "seed", "family", "base", "rewards"}  # values of a paper preset that are not a setting of its source


def section(name):
    """The text below a method's heading."""
    return re.split(rf"^### {name}$", TEXT, flags=re.MULTILINE)[1].split("\n### ")[0].split("\n## ")[0]


def arxiv(text):
    return set(re.findall(r"arXiv (\d{4}\.\d{5})", text))


def test_the_tables_are_those_that_the_command_prints():
    assert filled(TEXT) == TEXT, "run: python -m backend.methods_table"


def test_every_method_has_one_section_a_table_and_a_line_in_the_overview():
    known = list(methods())
    headed = re.findall(r"^### (\w+)$", TEXT, flags=re.MULTILINE)
    assert sorted(headed) == sorted(known)
    assert sorted(re.findall(r"<!-- settings of (\w+) -->", TEXT)) == sorted(known)
    assert sorted(re.findall(r"^\| \[(\w+)\]\(#\w+\)", TEXT, flags=re.MULTILINE)) == sorted(known)


@pytest.mark.parametrize("name", methods())
def test_a_section_names_the_paper_that_the_file_names(name):
    source = sys.modules[methods()[name].__module__].__doc__
    assert arxiv(source), f"the docstring of {name} names no paper"
    assert arxiv(source) <= arxiv(section(name))


def test_every_chart_of_a_method_is_explained():
    sources = [path for path in BACKEND.rglob("*.py") if "benchmarks" not in path.parts]
    charts = {chart for path in sources for chart in re.findall(r'"(train/\w+)"', path.read_text(encoding="utf-8"))}
    assert charts
    assert {chart for chart in charts if f"`{chart}`" not in TEXT} == set()


@pytest.mark.parametrize("name", methods())
def test_every_method_has_a_preset_on_shapes(name):
    assert config.load(config.preset_path(f"shapes-{name}")).method.name == name


@pytest.mark.parametrize("name", PAPER)
def test_every_value_of_a_paper_preset_tells_its_source(name):
    lines = config.preset_path(name).read_text(encoding="utf-8").splitlines()
    settings = [line for line in lines if re.match(r" *\w+: ", line)]
    bare = {line.split(":")[0].strip() for line in settings if " # " not in line}
    assert bare <= NAMES


@pytest.mark.parametrize("name", PAPER)
def test_a_paper_preset_leaves_no_setting_of_its_method_unsaid(name):
    path = config.preset_path(name)
    method, said = config.load(path).method, yaml.safe_load(path.read_text(encoding="utf-8"))["method"]
    unsaid = {field for field in type(method).model_fields if field not in said}
    optional = {field for field in unsaid if getattr(method, field) in (None, False)}
    assert unsaid - optional <= {"cps_logprob", "pruning", "kl_form"}
