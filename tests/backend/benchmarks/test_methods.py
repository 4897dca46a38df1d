from dataclasses import replace

import pytest

from backend.benchmarks import command, methods, records, report
from backend.benchmarks.records import Trained


@pytest.fixture
def brief(profile):
    """A benchmark of a single step for each run, without a search."""
    return replace(profile, search_seconds=None, main_seconds=0.01, claimed_seeds=1, long_seconds=None, points=1)


def test_a_benchmark_end_to_end_and_again_without_work(tmp_path, brief):
    said = []
    methods.measure(tmp_path / "results", brief, ["main"], "dancegrpo", False, said.append)
    (found,) = records.of(Trained, records.read_all(tmp_path / "results"))
    assert (found.part, found.variant, found.seed, found.outcome, found.steps) == ("main", "dancegrpo", 0, "done", 1)
    assert [one.step for one in found.evaluations] == [0, 1]
    assert found.final["num_prompts"] == 300
    assert found.forwards.rollout == 4 * 16 * 6
    assert found.facts["threads"] == "1"
    assert "| dancegrpo | the preset's | 1 |" in report.write(tmp_path, brief).read_text()

    said.clear()
    methods.measure(tmp_path / "results", brief, ["main"], "dancegrpo", False, said.append)
    assert said == []
    with pytest.raises(ValueError, match="add --redo"):
        methods.measure(tmp_path / "results", replace(brief, main_seconds=5), ["main"], "dancegrpo", False, said.append)


def test_a_measurement_is_made_once(tmp_path, iterations):
    path, made = tmp_path / "iteration.json", []

    def measured():
        made.append(1)
        return iterations

    for _ in range(2):
        methods._once(path, "0", False, made.append, measured)
    assert made == ["iteration: measuring", 1]
    with pytest.raises(ValueError, match=r"iteration\.json was measured with other settings; add --redo"):
        methods._once(path, "other", False, made.append, measured)
    methods._once(path, "other", True, made.append, measured)
    assert made.count(1) == 2


def test_training_parts_wait_for_the_search(tmp_path, profile):
    with pytest.raises(ValueError, match="search: 4 of 4 runs are not there; run `--part search` first"):
        methods.measure(tmp_path, profile, ["main"], "dancegrpo", False, print)


def test_report_alone_measures_nothing(tmp_path, trained, capsys):
    assert command.main(["methods", "--report", "--out", str(tmp_path)]) == 2
    assert "holds no records" in capsys.readouterr().err
    records.write(tmp_path / "results" / "main" / "a.json", trained("main", "branchgrpo"))
    assert command.main(["methods", "--report", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"written: {tmp_path / 'results.md'}\n"


def test_a_method_that_is_not_there_is_explained(tmp_path, capsys):
    assert command.main(["methods", "--only", "ppo", "--part", "main", "--quick", "--out", str(tmp_path)]) == 2
    assert "'ppo' is not a method" in capsys.readouterr().err
