"""Folders of judged pairs: whole, named by their votes, and complete."""

import pytest

from backend.preferences import judged_folder
from tests.backend.preferences.test_decided import A, B, archive_of

VOTES = [[("left", True, False)], [("tie", True, False)]]


@pytest.fixture
def picture(tmp_path):
    for name in (A, B):
        (tmp_path / f"{name}.png").write_bytes(name.encode())
    return lambda name: tmp_path / f"{name}.png"


def test_what_is_written_comes_back_with_its_pictures(tmp_path, picture):
    folder = judged_folder.write(tmp_path / "votes", archive_of(VOTES), picture)
    found, files = judged_folder.read(folder)
    assert [(one.better, one.worse) for one in found.pairs] == [(A, B)]
    assert {name: path.read_text() for name, path in files.items()} == {A: A, B: B}
    assert list((tmp_path / "votes").iterdir()) == [folder]


def test_equal_votes_make_one_folder_and_other_votes_another(tmp_path, picture):
    first, again = (judged_folder.write(tmp_path / "votes", archive_of(VOTES), picture) for _ in range(2))
    other = judged_folder.write(tmp_path / "votes", archive_of([*VOTES, *VOTES]), picture)
    assert first == again
    assert other != first


def test_nothing_is_left_behind_where_a_picture_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        judged_folder.write(tmp_path / "votes", archive_of(VOTES), lambda name: tmp_path / "none.png")
    assert list((tmp_path / "votes").iterdir()) == []


def test_a_folder_that_lost_a_picture_is_refused(tmp_path, picture):
    folder = judged_folder.write(tmp_path / "votes", archive_of(VOTES), picture)
    (folder / "media" / f"{B}.png").unlink()
    with pytest.raises(ValueError, match=r"picture b+ is missing"):
        judged_folder.read(folder)
    with pytest.raises(ValueError, match=r"holds no votes\.json"):
        judged_folder.read(tmp_path)
