import re
from pathlib import Path

import pytest

from backend.config import AnyModel
from frontend_components.forms import union_members

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(test_\w+\.py)::(test_\w+)(?:\[([\w-]+)\])?`", PAGE)


def test_every_cell_names_a_test_that_there_is():
    assert len(NAMED) == 4 * 6
    for file, name, case in NAMED:
        text = (HERE / file).read_text(encoding="utf-8")
        assert f"def {name}(" in text
        for part in case.split("-") if case else ():
            assert f'"{part}"' in text


@pytest.mark.parametrize("family", [one.model_fields["family"].default for one in union_members(AnyModel)])
def test_every_family_has_its_rows(family):
    assert f"| `{family}` |" in PAGE
    assert re.search(rf"^\| {family}[ ,]", PAGE, re.MULTILINE)
