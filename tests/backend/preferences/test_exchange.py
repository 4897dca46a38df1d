from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from backend.preferences import exchange
from backend.preferences.archive import Archive
from backend.preferences.opinion import Opinion, gather, opinions

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LEFT, RIGHT = "1" * 64, "2" * 64


def opinion(number: int = 0, **changes: object) -> Opinion:
    told = Opinion(
        prompt='a "red" circle, ß\nand more',
        left=LEFT,
        right=RIGHT,
        model_left="base",
        model_right="run 7:260",
        choice="left",
        reviewer="ada",
        aspects={"quality": "right"},
        created_at=NOW + timedelta(seconds=number),
        milliseconds=1500,
        seed=2**40,
        task="count",
        kind="image",
        scores_left={"strict": 1.0},
        scores_right={"strict": None},
    )
    return replace(told, **changes)


def archive(*found: Opinion) -> Archive:
    return gather(found, "set", "ada", NOW)


CHOICES = ("left", "right", "tie", "both_bad", "skip")
VOTES = [
    opinion(
        number,
        choice=choice,
        reviewer=f"reviewer {number}",
        left=left,
        right=right,
        prompt=f"prompt {number}, {choice}",
    )
    for number, (choice, left, right) in enumerate(
        [(choice, *sides) for choice in CHOICES for sides in ((LEFT, RIGHT), (RIGHT, LEFT))]
    )
]


def test_gathered_votes_come_out_as_they_were() -> None:
    assert opinions(archive(*VOTES)) == VOTES


def test_votes_on_one_pair_share_it_whatever_the_sides() -> None:
    swapped = opinion(1, left=RIGHT, right=LEFT, model_left="run 7:260", model_right="base", reviewer="bob")
    found = archive(opinion(), swapped)
    assert len(found.pairs) == 1
    assert [shown.a_is_left for shown in found.showings] == [True, False]


def test_second_vote_of_a_reviewer_on_a_pair_is_a_repeat() -> None:
    swapped = opinion(1, left=RIGHT, right=LEFT, model_left="run 7:260", model_right="base")
    found = archive(opinion(), swapped, opinion(2))
    assert [(pair.repeat_of, pair.flipped) for pair in found.pairs] == [(None, False), (0, True), (0, False)]


def test_native_file_loses_nothing() -> None:
    whole = archive(*VOTES)
    assert exchange.read(exchange.write(whole, "native"), "native", "", "") == whole


def held(form: str) -> list[Opinion]:
    """VOTES with what the columns of a format cannot hold at its default."""
    bare = {"scores_left": {}, "scores_right": {}, "milliseconds": 0, "seed": 0, "task": None}
    chosen = [one for one in VOTES if one.choice in ("left", "right")]
    tied = [replace(one, choice="tie") if one.choice == "both_bad" else one for one in VOTES]
    return {
        "pickapic": [replace(one, **bare, aspects={}) for one in tied],
        "hpd": [replace(one, **bare, aspects={}, created_at=None) for one in chosen],
        "videoalign": [replace(one, **bare, created_at=None, kind="video") for one in tied],
        "chosen_rejected": chosen,
        "parquet": VOTES,
    }[form]


@pytest.mark.parametrize("form", exchange.FORMATS)
def test_file_loses_nothing_that_its_columns_can_hold(form: str) -> None:
    data = exchange.write(archive(*VOTES), form, "https://lab.example/media/")
    assert exchange.FORMATS[form].read(data) == held(form)


def test_pickapic_columns_and_labels() -> None:
    rows = list(csv.DictReader(io.StringIO(exchange.write(archive(*VOTES), "pickapic", "media/").decode())))
    left, right, tie, skip = rows[0], rows[2], rows[4], rows[8]
    assert (left["label_0"], left["label_1"], left["best_image_uid"]) == ("1.0", "0.0", LEFT)
    assert (right["label_0"], right["label_1"], right["best_image_uid"]) == ("0.0", "1.0", RIGHT)
    assert (tie["label_0"], tie["label_1"], tie["best_image_uid"], tie["has_label"]) == ("0.5", "0.5", "", "True")
    assert skip["has_label"] == "False"
    assert left["image_0_url"] == f"media/{LEFT}"
    assert (left["user_id"], left["model_1"], left["num_example_per_prompt"]) == ("reviewer 0", "run 7:260", "1")


def test_hpd_rows_choose_the_preferred_image() -> None:
    rows = json.loads(exchange.write(archive(*VOTES), "hpd", "media/"))
    assert [row["human_preference"] for row in rows] == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert rows[0]["file_path"] == [f"media/{LEFT}", f"media/{RIGHT}"]


def test_videoalign_labels_name_sides() -> None:
    rows = list(csv.DictReader(io.StringIO(exchange.write(archive(*VOTES), "videoalign", "media/").decode())))
    assert [row["Overall"] for row in rows[::2]] == ["A", "B", "same", "same", ""]
    assert (rows[0]["VQ"], rows[0]["MQ"], rows[0]["TA"]) == ("B", "", "")


def test_chosen_and_rejected_name_the_better_and_the_worse() -> None:
    lines = exchange.write(archive(*VOTES), "chosen_rejected", "media/").decode().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["chosen"][-1] for row in rows] == ["1", "2", "2", "1"]
    assert all(row["chosen"] != row["rejected"] for row in rows)
    assert rows[0]["chosen_scores"] == {"strict": 1.0}


def test_bare_chosen_and_rejected_of_another_tool_are_read() -> None:
    data = b'{"prompt": "a cat", "chosen": "good.png", "rejected": "bad.png"}\n'
    (read,) = opinions(exchange.read(data, "chosen_rejected", "set", "ada"))
    assert (read.left, read.right, read.choice, read.reviewer) == ("good.png", "bad.png", "left", "unknown")


@pytest.mark.parametrize(
    ("form", "data", "told"),
    [
        ("native", b"not json", "native"),
        ("native", b"{}", "name: Field required"),
        ("pickapic", b"caption\na cat\n", "0.has_label: Field required"),
        ("pickapic", b"\xff\xfe", "not a pickapic file"),
        ("hpd", b'[{"prompt": "a cat"}]', "0.human_preference: Field required"),
        ("hpd", b"[]", "there is no vote in it"),
        ("videoalign", b"path_A,path_B\nx,y\n", "0.A_model: Field required"),
        ("chosen_rejected", b'{"prompt": 1}', "prompt: Input should be a valid string"),
        ("excel", b"", "format: 'excel' is not one of native, pickapic"),
    ],
)
def test_file_of_another_kind_is_refused(form: str, data: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        exchange.read(data, form, "set", "ada")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda file: file["pairs"][0].update(model_a="nobody"), "pairs.0: its models"),
        (lambda file: file["pairs"][0].update(repeat_of=0), "pairs.0.repeat_of"),
        (lambda file: file["showings"][0].update(pair=99), "showings.0: its pair"),
        (
            lambda file: file["showings"][0]["votes"].append(file["showings"][0]["votes"][0]),
            "only one of them may stand",
        ),
        (lambda file: file["showings"].append(file["showings"][0]), "showings: .* is there twice"),
        (lambda file: file["reviewers"].append(file["reviewers"][0]), "reviewers: 'reviewer 0' is there twice"),
        (lambda file: file.update(extra=1), "extra"),
        (lambda file: file.update(models=[]), "models: .*at least 1"),
        (lambda file: file["reviewers"][0].update(pseudonym="a\0"), "pseudonym"),
        (lambda file: file["pairs"][0].update(seed=2**63), "seed"),
    ],
)
def test_native_file_that_contradicts_itself_is_refused(change, told: str) -> None:
    file = json.loads(exchange.write(archive(*VOTES), "native"))
    change(file)
    with pytest.raises(ValueError, match=told):
        exchange.read(json.dumps(file).encode(), "native", "", "")


@pytest.mark.parametrize("form", ["native", "chosen_rejected", "parquet"])
def test_two_samples_of_one_model_keep_their_seeds(form: str) -> None:
    told = opinion(model_right="base", seed=5, seed_right=6)
    swapped = opinion(
        1, left=RIGHT, right=LEFT, model_right="base", seed=6, seed_right=5, choice="right", reviewer="bob"
    )
    found = archive(told, swapped)
    assert [(pair.model_a, pair.model_b, pair.seed, pair.seed_b) for pair in found.pairs] == [("base", "base", 5, 6)]
    again = exchange.read(exchange.write(found, form), form, "set", "ada")
    assert [(one.left, one.seeds, one.choice) for one in opinions(again)] == [
        (LEFT, (5, 6), "left"),
        (RIGHT, (6, 5), "right"),
    ]
