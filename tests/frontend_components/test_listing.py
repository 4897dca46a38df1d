import json

import pytest

from frontend_components import listing


def test_runs_lists_state_steps_and_reward(run_id: str, capsys: pytest.CaptureFixture[str]):
    assert listing.list_runs(["--state", "done"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(run_id)]
    assert line.split()[1:3] == ["done", "8/8"]


def test_runs_in_json_are_those_of_the_interface(run_id: str, client, capsys: pytest.CaptureFixture[str]):
    listing.list_runs(["--json"])
    assert json.loads(capsys.readouterr().out) == client.get("/api/v1/runs").json()


def test_runs_of_no_state_are_none(run_id: str, capsys: pytest.CaptureFixture[str]):
    listing.list_runs(["--state", "failed", "--json"])
    assert json.loads(capsys.readouterr().out) == []


def test_show_takes_the_beginning_of_an_id(run_id: str, capsys: pytest.CaptureFixture[str]):
    assert listing.show_run([run_id[:-2], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["id"], shown["state"]) == (run_id, "done")
    assert shown["evaluations"]


def test_show_says_how_to_find_an_unknown_run(data, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        listing.show_run(["no-such-run"])
    assert "espalier runs" in capsys.readouterr().err
