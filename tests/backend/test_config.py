from typing import get_args

import pytest
import yaml

from backend import config


@pytest.mark.parametrize("name", config.preset_names())
def test_every_preset_loads_and_survives_a_round_trip(name):
    loaded = config.load(config.preset_path(name))
    assert config.read(config.dump(loaded)) == loaded


def test_every_method_has_a_preset():
    used = {type(config.load(config.preset_path(name)).method) for name in config.preset_names()}
    assert used == set(get_args(get_args(config.AnyMethod)[0]))


def test_overrides_reach_into_nested_settings_and_lists():
    loaded = config.load(
        config.preset_path("shapes-branchgrpo"),
        ["sampling.steps=20", "method.split_steps=[0,3,6,9]", "rewards.0.weight=2", "name=other"],
    )
    assert loaded.method.split_steps == (0, 3, 6, 9)
    assert loaded.rewards[0].weight == 2
    assert loaded.sampling.steps == 20


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("method.splits=[0]", r"method\.splits: this name does not exist"),
        ("method.split_steps=[3,1]", r"split_steps: steps must rise"),
        ("method.split_steps=[0,7]", r"step 7 cannot split in 6 sampling steps"),
        ("optimizer.learning_rate=-1", r"optimizer\.learning_rate: Input should be greater than 0 \(got -1\)"),
        ("steps=0", r"steps: Input should be greater than or equal to 1 \(got 0\)"),
        ("method.name=ppo", r"method: .*branchgrpo"),
        ("evaluation.prompts=drawbench", r"evaluation\.prompts: .*shapes-test"),
        ("evaluation.seeds=[1,2,1]", r"evaluation\.seeds: .*1 stands there more than once .* name each seed once"),
        ("steps", r"--set: 'steps' is not NAME=VALUE"),
        ("rewards=[]", r"rewards: "),
        ("rewards=[{name: shapes}, {name: shapes}]", r"rewards: shapes is there 2 times; name each once"),
        ("rewards=[{name: clip}]", r"rewards\.0: .*shapes"),
        ("rewards=[{name: nearest_truth, truths: 0}]", r"rewards\.0\.truths: .* greater than or equal to 1"),
        ("method.pruning={kind: depth, width: 0}", r"method\.pruning\.width: .* greater than or equal to 1"),
    ],
)
def test_mistakes_name_field_value_and_remedy(override, message):
    with pytest.raises(ValueError, match=message):
        config.load(config.preset_path("shapes-branchgrpo"), [override])


def test_rewards_of_several_kinds_are_told_apart_by_name():
    loaded = config.load(
        config.preset_path("shapes-branchgrpo"), ["rewards=[{name: shapes, weight: 2}, {name: nearest_truth}]"]
    )
    assert [(type(one).__name__, one.weight) for one in loaded.rewards] == [("ShapesReward", 2), ("NearestTruth", 1)]
    assert config.read(config.dump(loaded)) == loaded


def test_all_mistakes_are_listed_at_once():
    data = yaml.safe_load(config.preset_path("shapes-branchgrpo").read_text())
    data["steps"], data["seed"] = 0, -1
    with pytest.raises(ValueError, match=r"(?s)seed: .*steps: "):
        config.parse(data)


def test_a_file_that_is_missing_or_no_mapping_is_explained(tmp_path):
    with pytest.raises(ValueError, match="does not exist; the presets are"):
        config.load(tmp_path / "none.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(ValueError, match="expected a mapping of settings, got list"):
        config.load(tmp_path / "list.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1\n")
    with pytest.raises(ValueError, match="not YAML"):
        config.load(tmp_path / "bad.yaml")


def test_json_and_a_byte_order_mark_are_read(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_bytes(b'\xef\xbb\xbf{"name": "x", "sampling": {"steps": 12}}')
    assert config.load(file).name == "x"
