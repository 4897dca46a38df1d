import json

from backend.benchmarks import command, step


def test_phases_add_up_to_the_step(small):
    found = step.measure(small(), steps=2)
    parts = found["forward"] + found["backward"] + found["reward"] + found["other"]
    assert abs(parts - found["seconds_per_step"]) < 1e-9
    assert all(found[name] > 0 for name in ("forward", "backward", "reward", "other"))
    assert found["model_share"] == (found["forward"] + found["backward"]) / found["seconds_per_step"]


def test_command_prints_json(small, tmp_path, capsys):
    from backend.config import dump

    file = tmp_path / "c.yaml"
    file.write_text(dump(small()))
    assert command.main(["step", str(file), "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 1
