from typing import Any

import pytest

from backend.config import dump, load, preset_path, read
from frontend_components.drafts import DEFAULT, DraftIn, changes, command, draft, form


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
