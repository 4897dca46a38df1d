from pathlib import Path

import pytest
from starlette.testclient import TestClient

from backend.config import load, preset_path
from db import runs
from db.session import reading, writing
from tests.frontend_components import demo


@pytest.fixture
def config() -> dict:
    return load(preset_path("shapes-branchgrpo")).model_dump(mode="json")


def test_list_has_what_a_row_shows(client: TestClient, run_id: str):
    (row,) = [one for one in client.get("/api/v1/runs").json() if one["id"] == run_id]
    assert (row["state"], row["step"], row["total_steps"]) == ("done", 8, 8)
    assert (row["method"], row["model"]) == ("branchgrpo", "shapes")
    assert len(row["sparkline"]) == 8
    assert row["last_reward"] == pytest.approx(row["sparkline"][-1])
    assert "config" not in row


def test_list_filters_by_state_name_and_page(client: TestClient, run_id: str):
    assert run_id in [run["id"] for run in client.get("/api/v1/runs?state=done").json()]
    assert run_id not in [run["id"] for run in client.get("/api/v1/runs?state=failed&state=lost").json()]
    assert client.get("/api/v1/runs?search=no-such-name").json() == []
    assert run_id not in [run["id"] for run in client.get(f"/api/v1/runs?before={run_id}").json()]
    assert client.get("/api/v1/runs?limit=100000").status_code == 422


def test_run_has_its_settings_facts_and_log(client: TestClient, run_id: str):
    run = client.get(f"/api/v1/runs/{run_id}").json()
    assert run["config"]["method"]["splits"] == [0, 3, 6, 9]
    assert run["facts"]["device"] == "cpu"
    assert run["log_tail"].endswith("saved checkpoint-24\n")


def test_unknown_is_404_and_says_what(client: TestClient, run_id: str):
    missing = client.get("/api/v1/runs/nothing")
    assert missing.status_code == 404
    assert "nothing" in missing.json()["detail"]
    assert client.get(f"/api/v1/runs/{run_id}/trees/999/0").status_code == 404


def test_curves_after_a_step(client: TestClient, run_id: str):
    curves = client.get(f"/api/v1/runs/{run_id}/curves?after=5").json()
    assert curves["steps"] == [6, 7, 8]
    assert len(curves["values"]["train/reward_mean"]) == 3


def test_csv_has_one_row_a_step(client: TestClient, run_id: str):
    answer = client.get(f"/api/v1/runs/{run_id}/curves.csv")
    head, *rows = answer.text.splitlines()
    assert head.startswith("step,time,")
    assert len(rows) == 8
    assert {len(row.split(",")) for row in rows} == {len(head.split(","))}


def test_tree_is_the_event_that_was_drawn(client: TestClient, data: Path, run_id: str):
    index = client.get(f"/api/v1/runs/{run_id}/trees").json()
    assert [key["step"] for key in index if key["prompt_index"] == 1] == [2, 4, 6, 8]
    tree = client.get(f"/api/v1/runs/{run_id}/trees/8/0").json()
    assert [len(level) for level in tree["parents"]][-1] == 16
    expected = demo.tree(data / "scratch", 8, 0).model_dump(mode="json")
    assert tree["advantages"] == expected["advantages"]


def test_depths_are_standardised(client: TestClient, run_id: str):
    rows = client.get(f"/api/v1/runs/{run_id}/depths").json()
    assert {row["depth"] for row in rows} == set(range(1, 21))
    assert all(abs(row["advantage_mean"]) < 1e-9 for row in rows)


def test_samples_and_evaluations_by_step(client: TestClient, run_id: str):
    assert client.get(f"/api/v1/runs/{run_id}/samples/test").json() == [0, 8]
    rows = client.get(f"/api/v1/runs/{run_id}/samples/test/8").json()
    assert len(rows) == 48
    assert set(rows[0]["scores"]) == {"strict", "quality"}
    assert [rows[0][name] for name in ("mime", "width", "height", "poster")] == ["image/webp", 64, 64, None]
    evaluations = client.get(f"/api/v1/runs/{run_id}/evaluations").json()
    mean = sum(row["scores"]["strict"] for row in rows) / 48
    assert evaluations[-1]["report"]["strict_accuracy"]["overall"]["mean"] == pytest.approx(mean)
    assert client.get(f"/api/v1/runs/{run_id}/checkpoints").json()[0]["path"] == "checkpoint-8"


def test_launch_names_every_wrong_field(client: TestClient, config: dict):
    config["steps"] = 0
    config["method"]["etta"] = 1
    answer = client.post("/api/v1/runs", json={"config": config})
    assert answer.status_code == 422
    assert {problem["field"] for problem in answer.json()["detail"]} == {"steps", "method.etta"}


def test_launch_without_a_broker_leaves_a_queued_row(client: TestClient, config: dict, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")  # nothing listens there
    answer = client.post("/api/v1/runs", json={"config": config, "preset": "shapes-branchgrpo"})
    assert answer.status_code == 201
    with reading() as session:
        run = runs.get(session, answer.json()["id"])
    assert (run.state, run.preset, run.total_steps) == ("queued", "shapes-branchgrpo", config["steps"])


def test_stop_and_resume_move_a_run(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")
    with writing() as session:
        run_id = runs.create(session, name="idle", config=demo.CONFIG, preset=None).id
    assert client.post(f"/api/v1/runs/{run_id}/stop").json()["state"] == "stopped"
    assert client.post(f"/api/v1/runs/{run_id}/resume").json()["state"] == "queued"
    assert client.post("/api/v1/runs/nothing/stop").status_code == 404


@pytest.mark.parametrize(("base", "remedy"), [
    ("/models/absent", "neither a folder on this machine nor a hub id"),
    ("EMPTY", "holds no model_index.json"),
])  # fmt: skip
def test_a_base_that_the_machine_cannot_have_is_not_queued(client: TestClient, config, tmp_path: Path, base, remedy):
    config["model"]["base"] = str(tmp_path) if base == "EMPTY" else base
    before = len(client.get("/api/v1/runs?limit=200").json())
    answer = client.post("/api/v1/runs", json={"config": config})
    assert answer.status_code == 422
    (problem,) = answer.json()["detail"]
    assert problem["field"] == "model.base"
    assert remedy in problem["text"]
    assert len(client.get("/api/v1/runs?limit=200").json()) == before
