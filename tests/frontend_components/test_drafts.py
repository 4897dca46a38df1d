from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from backend.config import dump, load, preset_path, read
from frontend_components.drafts import DEFAULT, DraftIn, changes, command, draft, form

pytestmark = pytest.mark.usefixtures("data")  # earlier runs tell how long a draft will take


@pytest.fixture
def config() -> dict[str, Any]:
    return load(preset_path(DEFAULT)).model_dump(mode="json")


def test_the_default_preset_is_first_choice():
    offered = form()
    assert offered.default == DEFAULT
    assert DEFAULT in [preset.name for preset in offered.presets]


def test_form_and_yaml_are_the_same_draft(config: dict[str, Any]):
    from_form = draft(DraftIn(config=config, preset=DEFAULT))
    from_text = draft(DraftIn(text=dump(load(preset_path(DEFAULT)))))
    assert from_form.problems == from_text.problems == []
    assert from_form.config == from_text.config == config
    assert from_form.text is not None
    assert read(from_form.text).model_dump(mode="json") == config


def test_the_plan_is_counted(config: dict[str, Any]):
    plan = draft(DraftIn(config=config)).plan
    # 6 steps, K = 2 at steps 0 to 3: 1 + 2 + 4 + 8 + 16 + 16 nodes are evaluated
    assert plan is not None
    assert plan["forwards_per_prompt"] == 47
    assert plan["num_leaves"] == 16
    assert plan["samples_per_step"] == 16 * config["prompts"]["per_step"]


def test_the_command_names_what_was_changed(config: dict[str, Any]):
    assert draft(DraftIn(config=config, preset=DEFAULT)).command == f"espalier launch configs/{DEFAULT}.yaml"
    config["steps"] = 7
    config["method"]["split_steps"] = [0, 2]
    config["name"] = "it's mine"
    told = draft(DraftIn(config=config, preset=DEFAULT)).command
    assert told is not None
    assert "--set steps=7" in told
    assert "--set 'method.split_steps=[0, 2]'" in told
    assert draft(DraftIn(config=config)).command == "espalier launch config.yaml"


def test_the_command_makes_the_same_run(config: dict[str, Any]):
    import shlex

    start = load(preset_path(DEFAULT)).model_dump(mode="json")
    config["steps"], config["name"] = 9, "it's: [mine]"
    config["method"]["split_steps"] = [0, 2]
    words = shlex.split(command(DEFAULT, start, config).replace("\\\n", ""))
    sets = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    assert load(preset_path(DEFAULT), sets).model_dump(mode="json") == config


def test_a_group_of_another_kind_is_given_whole():
    before = {"a": {"kind": "x", "p": 1}, "b": 2}
    assert changes(before, {"a": {"kind": "y", "q": 3}, "b": 2}) == [("a", {"kind": "y", "q": 3})]
    assert changes(before, {"a": {"kind": "x", "p": 5}, "b": 2}) == [("a.p", 5)]


def test_problems_stand_at_their_fields(config: dict[str, Any]):
    config["method"]["eta"] = 9
    config["optimizer"]["learning_rat"] = 1
    found = {problem.field: problem.text for problem in draft(DraftIn(config=config)).problems}
    assert "4" in found["method.eta"]
    assert "9" in found["method.eta"]
    assert "does not exist" in found["optimizer.learning_rat"]


@pytest.mark.parametrize("text", ["steps: [1", "just words", ""])
def test_text_that_is_no_mapping_is_a_problem(text: str):
    answer = draft(DraftIn(text=text))
    assert len(answer.problems) == 1
    assert answer.plan is None


def test_a_draft_on_a_file_reports_what_is_in_it(config: dict[str, Any], tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_text("a red circle\n\na red circle\nsketch of a blue ring\n")
    config["prompts"] = {"source": "file", "path": str(file), "per_step": 2}
    found = draft(DraftIn(config=config, preset=DEFAULT))
    assert found.problems == []
    assert found.prompts is not None
    assert (found.prompts.num_prompts, found.prompts.num_distinct, found.prompts.num_blank) == (3, 2, 1)
    assert found.prompts.repeated[0].lines == [1, 3]
    assert found.prompts.overlap is not None
    assert found.prompts.overlap.against == "shapes-test"
    assert found.command is not None
    assert "--set 'prompts={source: file, path: " in found.command


def test_rows_that_are_no_prompts_are_a_problem_of_the_path_and_reported(config: dict[str, Any], tmp_path: Path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"prompt": "a"}\n{"promt": "b"}\n')
    config["prompts"] = {"source": "file", "path": str(file), "per_step": 2}
    found = draft(DraftIn(config=config))
    assert [problem.field for problem in found.problems] == ["prompts.path"]
    assert "has 1 rows that are no prompts (line 2: no column" in found.problems[0].text
    assert found.plan is None
    assert found.prompts is not None
    assert [one.line for one in found.prompts.bad] == [2]


def test_files_that_are_not_there_are_problems_of_their_fields(config: dict[str, Any], tmp_path: Path):
    config["prompts"] = {"source": "file", "path": str(tmp_path / "none.txt"), "per_step": 2}
    told = draft(DraftIn(config=config)).problems
    assert [(one.field, "does not exist" in one.text) for one in told] == [("prompts.path", True)]
    config["evaluation"]["prompts"] = str(tmp_path / "none.csv")
    told = draft(DraftIn(config=config)).problems
    assert [(one.field, "does not exist" in one.text) for one in told] == [("evaluation.prompts", True)]


def test_a_launch_on_a_file_that_is_not_there_is_refused(client: TestClient, config: dict[str, Any], tmp_path: Path):
    config["prompts"] = {"source": "file", "path": str(tmp_path / "none.txt"), "per_step": 2}
    answer = client.post("/api/v1/runs", json={"config": config})
    assert answer.status_code == 422
    assert [problem["field"] for problem in answer.json()["detail"]] == ["prompts.path"]


def test_first_frames_that_a_run_would_miss_are_problems_with_their_lines(config: dict[str, Any], tmp_path: Path):
    (tmp_path / "model_index.json").write_text('{"_class_name": "WanImageToVideoPipeline"}')
    file = tmp_path / "a.jsonl"
    file.write_text('{"prompt": "a", "first_frame": "none.png"}\n{"prompt": "b"}\n')
    config["model"] = {"family": "wan", "base": str(tmp_path)}
    config["prompts"] = {"source": "file", "path": str(file), "per_step": 2}
    config["evaluation"]["prompts"] = str(file)
    found = draft(DraftIn(config=config))
    assert [one.field for one in found.problems] == ["prompts.path", "evaluation.prompts"]
    assert "line 1: first_frame:" in found.problems[0].text
    assert found.prompts is not None
    assert [one.line for one in found.prompts.bad] == [1]
    assert found.prompts.num_first_frame == 1


def test_a_draft_has_the_memory_it_needs_where_the_base_is_known(config: dict[str, Any]):
    config["model"] = {"family": "flux", "base": "black-forest-labs/FLUX.1-dev", "gradient_checkpointing": True}
    found = draft(DraftIn(config=config)).memory
    assert found is not None
    assert found["base"] == 2 * found["parameters"] == pytest.approx(23.8e9, rel=0.01)
    assert found["total"] > found["base"] + found["beside"]
    config["model"]["base"] = "someone/else"
    assert draft(DraftIn(config=config)).memory is None
