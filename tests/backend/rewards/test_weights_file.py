from __future__ import annotations

from pathlib import Path

import pytest

from backend.rewards.weights_file import find, loading


def test_a_file_on_disk_is_itself(tmp_path: Path) -> None:
    (tmp_path / "head.pth").write_bytes(b"")
    assert find(str(tmp_path / "head.pth")) == tmp_path / "head.pth"


@pytest.mark.parametrize("where", ["head.pth", "owner/name", "/no/such/file", "./no/such/file"])
def test_what_is_neither_a_file_nor_one_of_the_hub_is_not_looked_for(where: str) -> None:
    with pytest.raises(FileNotFoundError, match="neither a file nor owner/name/file"):
        find(where)


def test_an_error_names_the_field_and_the_remedy() -> None:
    with (
        pytest.raises(ValueError, match=r"rewards\.x\.weights: 'gone' cannot be loaded \(KeyError: 'a'\).*download it"),
        loading("rewards.x.weights", "gone"),
    ):
        raise KeyError("a")


def test_mistakes_of_ours_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), loading("x", "y"):
        raise ZeroDivisionError
