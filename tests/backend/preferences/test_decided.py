"""Which pairs votes decide, counted by hand."""

from datetime import UTC, datetime

from backend.preferences.archive import (
    Archive,
    ArchivedModel,
    ArchivedPair,
    ArchivedReviewer,
    ArchivedShowing,
    ArchivedVote,
)
from backend.preferences.decided import DecidedPair, decided

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = "a" * 64, "b" * 64


def archive_of(answers, **pair):
    """One pair after another; answers: for each, (choice, a_is_left, undone) of reviewers 0, 1, ..."""
    reviewers = max(map(len, answers), default=0)
    pairs = [
        {"prompt_index": place, "prompt": f"prompt {place}", "seed": 1, "model_a": "base", "model_b": "tuned"}
        | {"image_a": A, "image_b": B, "kind": "image"}
        for place in range(len(answers))
    ]
    pairs[-1] |= pair
    showings = [
        ArchivedShowing(
            pair=place,
            reviewer=f"r{number}",
            ordinal=place,
            a_is_left=a_is_left,
            shown_at=NOW,
            votes=[ArchivedVote(choice=choice, created_at=NOW, undone_at=NOW if undone else None)],
        )
        for place, given in enumerate(answers)
        for number, (choice, a_is_left, undone) in enumerate(given)
    ]
    return Archive(
        name="set",
        owner="ada",
        created_at=NOW,
        settings={},
        seed=0,
        models=[ArchivedModel(key="base", label="base"), ArchivedModel(key="tuned", label="tuned")],
        pairs=[ArchivedPair(**one) for one in pairs],
        reviewers=[ArchivedReviewer(pseudonym=f"r{number}", created_at=NOW) for number in range(reviewers)],
        showings=showings,
    )


def test_a_choice_of_a_side_is_one_of_a_picture():
    found = decided(archive_of([[("left", True, False)], [("left", False, False)], [("right", False, False)]]))
    assert [(one.better, one.worse) for one in found.pairs] == [(A, B), (B, A), (A, B)]
    assert [one.prompt for one in found.pairs] == ["prompt 0", "prompt 1", "prompt 2"]
    assert (found.votes, found.left_out) == (3, {})


def test_most_votes_decide_and_ties_do_not_count():
    split = [("left", True, False), ("right", True, False)]
    most = [("left", True, False), ("right", False, False), ("left", False, False), ("tie", True, False)]
    found = decided(archive_of([split, most]))
    assert found.pairs == (DecidedPair("prompt 1", A, B, votes_for=2, votes_against=1),)
    assert found.left_out == {"as many votes for one as for the other": 1}


def test_what_chooses_neither_is_left_out_and_counted():
    found = decided(
        archive_of(
            [[("tie", True, False)], [("both_bad", True, False)], [("skip", True, False)], [("left", True, True)]]
        )
    )
    assert found.pairs == ()
    assert found.left_out == {"tie or both bad": 2, "no vote": 2}


def test_second_views_videos_and_equal_pictures_are_no_pairs():
    twice = [[("left", True, False)], [("right", True, False)]]
    assert len(decided(archive_of(twice, repeat_of=0)).pairs) == 1
    assert decided(archive_of(twice, repeat_of=0)).left_out == {}
    assert decided(archive_of(twice, kind="video")).left_out == {"video": 1}
    assert decided(archive_of(twice, image_b=A)).left_out == {"equal pictures": 1}
