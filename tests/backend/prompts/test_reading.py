import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from backend.prompts.reading import of_rows, read
from backend.prompts.record import Prompt
from backend.prompts.rows import Fault


def written(folder: Path, name: str, data: bytes | str) -> Path:
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


def texts(file: Path, column: str | None = None) -> list[str]:
    return [one.text for one in read(file, column).prompts]


def test_a_text_file_has_a_prompt_a_line_and_blank_lines_are_counted(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a.txt", "a cat\n\n  a dog  \n   \na cat"))
    assert found.prompts == (Prompt("a cat", line=1), Prompt("a dog", line=3), Prompt("a cat", line=5))
    assert (found.blank, found.faults) == (2, ())


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl", "a.tsv"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_marks_and_line_ends_leave_no_trace(tmp_path: Path, name: str, mark: bytes, end: bytes) -> None:
    rows = {
        "a.txt": ["a cat", "ein Bär"],
        "a.csv": ["prompt", "a cat", "ein Bär"],
        "a.tsv": ["prompt", "a cat", "ein Bär"],
        "a.jsonl": ['{"prompt": "a cat"}', '{"prompt": "ein Bär"}'],
    }[name]
    file = written(tmp_path, name, mark + b"".join(row.encode() + end for row in rows))
    found = read(file)
    assert [one.text for one in found.prompts] == ["a cat", "ein Bär"]
    assert (found.faults, found.blank) == ((), 0)


def test_other_line_separators_of_unicode_do_not_end_a_line(tmp_path: Path) -> None:
    assert texts(written(tmp_path, "a.txt", "a\u2028b\x0bc\x85d\na cat\n")) == ["a\u2028b\x0bc\x85d", "a cat"]


def test_a_line_that_is_not_utf_8_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a.txt", b"a cat\nein B\xe4r\na dog\n"))
    assert [one.text for one in found.prompts] == ["a cat", "a dog"]
    assert found.faults == (Fault(2, "byte 6 of the line, 0xe4, is not UTF-8"),)


def test_utf_16_is_named_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt is UTF-16; save it as UTF-8"):
        read(written(tmp_path, "a.txt", "a cat".encode("utf-16")))
    with pytest.raises(ValueError, match=r"a\.csv: line 3 is not UTF-8 \(byte 0xe4\)"):
        read(written(tmp_path, "a.csv", b"prompt\na cat\nein B\xe4r\n"))


def test_json_lines_carry_negative_prompt_image_and_metadata(tmp_path: Path) -> None:
    """GenEval's own form: the fields of the check stand beside the prompt, and `tag` is the task."""
    rows = [
        {"prompt": "a bench", "negative_prompt": "blur", "image": "a.png", "metadata": {"task": "x", "seed": 3}},
        {"tag": "counting", "include": [{"class": "clock", "count": 2}], "prompt": "two clocks"},
    ]
    first, second = read(written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))).prompts
    assert first == Prompt("a bench", {"task": "x", "seed": 3}, "blur", "a.png", 1)
    assert second == Prompt("two clocks", {"tag": "counting", "include": [{"class": "clock", "count": 2}]}, line=2)
    assert (first.task, second.task, Prompt("a").task) == ("x", "counting", "")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"prompt": "a"', "not JSON: Expecting ',' delimiter at column 15"),
        ('"a cat"', 'not an object with a prompt: "a cat"'),
        ('{"txt": "a"}', "no column 'prompt' or 'prompts' or 'caption' or 'text'; there is 'txt'"),
        ('{"prompt": 3}', "the prompt is 3, not text"),
        ('{"prompt": " ", "seed": 1}', "the prompt is empty"),
        ('{"prompt": null}', "the prompt is empty"),
        ('{"prompt": "a", "image": 3}', "image is 3, not text"),
        ('{"prompt": "a", "metadata": [1]}', "metadata is [1], not a mapping"),
        (
            '{"prompt": "a", "seed": 1, "metadata": {"seed": 2}}',
            "'seed' is a column and in metadata; keep one of the two",
        ),
    ],
)
def test_a_bad_json_line_is_named_and_the_others_are_read(tmp_path: Path, row: str, reason: str) -> None:
    found = read(written(tmp_path, "a.jsonl", f'{{"prompt": "a cat"}}\n\n{row}\n{{"prompt": "a dog"}}\n'))
    assert [(one.line, one.text) for one in found.prompts] == [(1, "a cat"), (4, "a dog")]
    assert found.faults == (Fault(3, reason),)
    assert found.blank == 1


def test_csv_cells_may_hold_quotes_commas_and_line_ends(tmp_path: Path) -> None:
    """The form of text-rendering prompts: the target stands in double quotes, which csv doubles."""
    data = '\nprompt,task,metadata\n"a sign, ""STOP""",ocr,"{""target"": ""STOP""}"\n"two\nlines",,\n\na cat,x,\n'
    found = read(written(tmp_path, "a.csv", data))
    assert found.faults == ()
    assert found.blank == 2
    assert found.prompts == (
        Prompt('a sign, "STOP"', {"task": "ocr", "target": "STOP"}, line=3),
        Prompt("two\nlines", line=4),  # lines 4 and 5; empty cells are absent
        Prompt("a cat", {"task": "x"}, line=7),
    )


def test_csv_rows_of_another_length_and_stray_quotes_are_named(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a.csv", 'prompt,task\na, b, c\n"a" b,x\na cat,x\n"open,x\nlast,y\n'))
    assert [one.text for one in found.prompts] == ["a cat"]
    assert [one.line for one in found.faults] == [2, 3, 5]
    assert found.faults[0].reason == "3 cells under a header of 2; quote cells with commas"
    assert found.faults[2].reason == "no row of a table, up to line 6: unexpected end of data"


def test_the_column_is_known_by_name_in_any_case_or_asked_for(tmp_path: Path) -> None:
    """PartiPrompts has `Prompt`, DrawBench `Prompts`, Pick-a-Pic `caption`."""
    parti = written(tmp_path, "parti.tsv", 'Prompt\tCategory\na cat\tAnimals\n"Toaday", a newspaper\tArtifacts\n')
    assert read(parti).prompts == (
        Prompt("a cat", {"Category": "Animals"}, line=2),
        Prompt('"Toaday", a newspaper', {"Category": "Artifacts"}, line=3),  # quotes do not enclose a cell of .tsv
    )
    assert texts(written(tmp_path, "draw.csv", "Prompts,Category\na cat,Colors\n")) == ["a cat"]
    assert texts(written(tmp_path, "pick.csv", "caption,best\na cat,1\n")) == ["a cat"]
    both = written(tmp_path, "both.csv", "prompt,long\na cat,a long cat\n")
    assert read(both, "long").prompts == (Prompt("a long cat", {"prompt (column)": "a cat"}, line=2),)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name == "a.csv":
        file.write_text("Prompt,seed\na cat,1\n")
    else:
        parquet.write_table(pyarrow.table({"Prompt": ["a cat"], "seed": [1]}), file)
    message = (
        rf"{name}: no column 'caption'; there is 'Prompt', 'seed'; name the one that holds the prompts in `column`"
    )
    with pytest.raises(ValueError, match=message):
        read(file, "caption")


def test_what_is_no_file_of_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in '\.json'; prompts are read from \.txt"):
        read(written(tmp_path, "a.json", "[]"))
    with pytest.raises(ValueError, match="does not exist on this machine"):
        read(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="has no columns, so 'prompt' cannot be one"):
        read(written(tmp_path, "a.txt", "a"), "prompt")
    with pytest.raises(ValueError, match="the column 'prompt' is there twice"):
        read(written(tmp_path, "a.csv", "prompt,prompt\na,b\n"))
    with pytest.raises(ValueError, match="is not a parquet file"):
        read(written(tmp_path, "a.parquet", "a cat"))


def test_parquet_keeps_plain_columns_and_names_those_of_binary_data(tmp_path: Path) -> None:
    rows = {
        "caption": ["a cat", None, "a dog", None],
        "tags": [["x", "y"], None, [], None],
        "score": [0.5, None, 1.0, 2.0],
        "jpg_0": [b"\xff", None, None, None],
        "image_0": [{"bytes": b"\xff", "path": "a"}, None, None, None],
    }
    parquet.write_table(pyarrow.table(rows), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    assert found.prompts[0] == Prompt("a cat", {"tags": ["x", "y"], "score": 0.5}, line=1)
    assert found.prompts[1] == Prompt("a dog", {"tags": [], "score": 1.0}, line=3)
    assert (found.blank, found.faults) == (1, (Fault(4, "the prompt is empty"),))
    assert found.left_out == ("jpg_0", "image_0")


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path, "a.txt", "a cat\n")
    before = read(file)
    assert read(file) is before
    written(tmp_path, "a.txt", "a dog and a cat\n")
    assert texts(file) == ["a dog and a cat"]
    assert read(file).sha256 != before.sha256


def test_a_first_frame_is_relative_to_the_file_of_its_prompt(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"prompt": "tide", "first_frame": "sea/a.png"}\n{"prompt": "storm", "metadata": {"first_frame": "b.png"}}\n'
        '{"prompt": "calm"}\n'
    )
    (tmp_path / "a.csv").write_text("prompt,first_frame\ntide,sea/a.png\nstorm,b.png\ncalm,\n")
    rows = {"prompt": ["tide", "storm", "calm"], "first_frame": ["sea/a.png", "b.png", None]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "a.parquet")
    expected = [str(tmp_path / "sea/a.png"), str(tmp_path / "b.png"), None]
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        found = read(tmp_path / name)
        assert [one.first_frame for one in found.prompts] == expected
        assert all("first_frame" not in one.metadata for one in found.prompts)


def test_a_first_frame_is_a_path_and_given_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"prompt": "tide", "first_frame": 3}\n'
        '{"prompt": "storm", "first_frame": "a.png", "metadata": {"first_frame": "b.png"}}\n'
    )
    assert [one.reason for one in read(tmp_path / "a.jsonl").faults] == [
        "first_frame is 3, not text",
        "'first_frame' is a column and in metadata; keep one of the two",
    ]


def test_a_dataset_has_no_folder_for_relative_first_frames(tmp_path: Path) -> None:
    given = [(1, {"prompt": "tide", "first_frame": "a.png"}), (2, {"prompt": "calm", "first_frame": "/data/b.png"})]
    found = of_rows(given, [], (), "")
    assert [one.first_frame for one in found.prompts] == ["/data/b.png"]
    assert [one.line for one in found.faults] == [1]
    assert "give an absolute path" in found.faults[0].reason
