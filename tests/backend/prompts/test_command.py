import json
from pathlib import Path

import pytest

from backend.prompts.command import main


def test_the_command_lists_what_is_wrong_with_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.txt"
    train.write_text("prompt,task\na cat,x\na cat,x\na,b,c\n\na dog,y\n")
    test.write_text("a dog\n")
    assert main(["check", str(train), "--against", str(test)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{train}: 3 prompts, 2 different, 1 blank lines",
        "tasks: x 2, y 1",
        "metadata: task 3",
        "1 lines are no prompts:",
        "  4: 3 cells under a header of 2; quote cells with commas",
        "1 texts occur more than once:",
        "  2, 3: a cat",
        f"1 texts are also in {test}:",
        "  6: a dog",
    ]


def test_long_lists_are_cut_in_words_and_whole_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"p{number}\n" for number in range(30)) * 2)
    assert main(["check", str(file)]) == 0
    words = capsys.readouterr().out.splitlines()
    assert words[-1] == "  and 10 more; --json lists all"
    assert main(["check", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["repeated"]) == found["num_repeated"] == 30
    assert found["repeated"][29] == {"text": "p29", "lines": [30, 60]}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.txt")]) == 2
    assert "none.txt does not exist on this machine" in capsys.readouterr().err
    (tmp_path / "a.txt").write_text("a cat\n")
    assert main(["check", str(tmp_path / "a.txt"), "--against", "drawbench"]) == 2
    assert "check: drawbench ends in ''; prompts are read from .txt" in capsys.readouterr().err


def test_negative_prompts_are_counted_apart_from_images_which_nothing_uses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    rows = ({"prompt": "a cat", "negative_prompt": "blur"}, {"prompt": "a dog", "image": "a.png"})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["check", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "negative prompts, for classifier-free guidance: 1",
        "images, not used by the models here: 1",
    ]
