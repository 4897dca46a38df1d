from pathlib import Path

from backend.prompts.check import check, facts
from backend.prompts.reading import read
from backend.prompts.report import Repeated, shortened
from backend.prompts.sources import FilePrompts, ShapesTrain, held_out


def checked(folder: Path, text: str, against: str | None = None):
    file = folder / "a.jsonl"
    file.write_text(text)
    return check(read(file), "a.jsonl", against)


def test_everything_in_a_file_is_counted(tmp_path: Path) -> None:
    report = checked(
        tmp_path,
        '{"prompt": "a cat", "task": "x", "seed": 1}\n\n{"prompt": "A  Cat", "task": "x", "negative_prompt": "blur"}\n'
        '{"prompt": "a dog", "task": "y", "image": "a.png"}\n{\n',
    )
    assert (report.num_prompts, report.num_distinct, report.num_blank, report.num_bad) == (3, 2, 1, 1)
    assert report.repeated == [Repeated(text="a cat", lines=[1, 3])]  # case and spaces do not make another text
    assert (report.tasks, report.metadata) == ({"x": 2, "y": 1}, {"task": 3, "seed": 1})
    assert (report.num_negative, report.num_image, report.bad[0].line) == (1, 1, 5)
    assert report.overlap is None


def test_overlap_with_the_evaluation_names_text_and_lines(tmp_path: Path) -> None:
    text = held_out("shapes-test")[7].text
    report = checked(tmp_path, f'{{"prompt": "{text.upper()}"}}\n{{"prompt": "a dog"}}\n', "shapes-test")
    assert report.overlap is not None
    assert (report.overlap.num, report.overlap.prompts) == (1, [Repeated(text=text.upper(), lines=[1])])
    (tmp_path / "test.txt").write_text("a  dog\na cow\n")
    other = checked(tmp_path, '{"prompt": "a cat"}\n{"prompt": "a dog"}\n', str(tmp_path / "test.txt"))
    assert other.overlap is not None
    assert other.overlap.prompts == [Repeated(text="a dog", lines=[2])]


def test_a_shortened_report_keeps_its_counts(tmp_path: Path) -> None:
    rows = "".join(f'{{"prompt": "p{number}"}}\n' * 2 + "{\n" for number in range(5))
    (tmp_path / "test.txt").write_text("".join(f"p{number}\n" for number in range(5)))
    short = shortened(checked(tmp_path, rows, str(tmp_path / "test.txt")), 2)
    assert short.overlap is not None
    assert (short.num_repeated, short.num_bad, short.overlap.num) == (5, 5, 5)
    assert [len(short.repeated), len(short.bad), len(short.overlap.prompts)] == [2, 2, 2]


def test_facts_of_a_run_name_the_file_and_its_content(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a cat\na cat\n")
    assert facts(ShapesTrain(), "shapes-test") == {}
    told = facts(FilePrompts(path=str(file)), "shapes-test")["prompts"]
    # sha256 of b"a cat\na cat\n"
    assert told.startswith(f"{file}: 2 prompts, 1 different, 0 of them also in shapes-test; sha256 ")
    assert told.endswith(read(file).sha256[:16])
