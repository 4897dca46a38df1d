"""Simulated votes for the measurement: as many as asked, repeatable, and in a folder that a run reads."""

from pathlib import Path

import pytest

from backend.benchmarks import votes_training
from backend.preferences import judged_folder
from backend.preferences.decided import decided


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("votes")
    config = votes_training.configured("dpo", home, 1, 0, ["sampling.evaluation_steps=2"])
    return [
        (folder, votes_training.archive_of(config, folder, 5, seed, error))
        for folder, seed, error in (
            (home / "a", 0, 0.0),
            (home / "b", 0, 0.0),
            (home / "c", 0, 1.0),
            (home / "d", 1, 0.0),
        )
    ]


def choices(archive):
    return [shown.votes[0].choice for shown in archive.showings]


def test_there_are_as_many_votes_that_choose_as_asked(made):
    for _, archive in made:
        assert len(decided(archive).pairs) == 5
        assert choices(archive)[-1] in ("left", "right")


def test_equal_seeds_give_equal_votes_and_others_do_not(made):
    (_, first), (_, again), _, (_, other) = made
    assert first == again
    assert [pair.prompt for pair in first.pairs] != [pair.prompt for pair in other.pairs]


def test_a_reviewer_who_always_errs_turns_every_choice_round(made):
    opposite = {"left": "right", "right": "left"}
    assert choices(made[2][1]) == [opposite.get(choice, choice) for choice in choices(made[0][1])]


def test_pictures_are_where_the_folder_takes_them_from(made, tmp_path):
    home, archive = made[0]
    files = {path.stem: path for path in (home / "media").rglob("*.png")}
    folder = judged_folder.write(tmp_path, archive, files.__getitem__)
    assert len(judged_folder.read(folder)[0].pairs) == 5


def test_the_run_is_that_of_the_pages_with_a_seed():
    config = votes_training.configured("dgpo", Path("x"), 7, 3, ["evaluation.limit=6"])
    assert (config.seed, config.steps, config.groups, config.evaluation.limit) == (3, 7, "x", 6)
