"""Training on the votes of a set, and rewards fitted to them, over HTTP and by the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from starlette.testclient import TestClient

from backend.config import load, preset_path
from backend.preferences import judged_folder
from backend.prompts.sources import held_out
from backend.shapes import render
from backend.shapes.prompts import parse
from db import artifacts, reviews, runs
from db.session import reading, writing
from frontend_components.judging import learned_rewards, vote_training, votes_command
from frontend_components.judging.vote_training import FEWEST
from tests.db.review_rows import cast, current, invite, sit

PROMPTS = [prompt.text for prompt in held_out("shapes-test")]


def store(data: Path, name: str, prompt: str, seed: int) -> str:
    path = data / "planted" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(render.draw(render.place(parse(prompt), np.random.default_rng(seed)))).save(path)
    row = {"sha256": name, "mime": "image/png", "path": f"planted/{path.name}", "poster": None}
    with writing() as session:
        artifacts.put(session, [row | {"width": 64, "height": 64, "bytes": path.stat().st_size}])
    return name


def judged_set(data: Path, num_pairs: int, run_id: str | None = None, choice: str = "left") -> str:
    """Held-out prompts 0, 1, ...: model A shows the prompt, B that of another; one reviewer chooses the same side."""
    pairs = []
    for place in range(num_pairs):
        sides = [store(data, f"{place:063d}{side}", PROMPTS[place - back], place) for back, side in enumerate("ab")]
        pairs.append(
            {
                "prompt_index": place, "prompt": PROMPTS[place], "task": None, "seed": 1, "model_a": "base",
                "model_b": "tuned", "sha_a": sides[0], "sha_b": sides[1], "kind": "image", "scores_a": {},
                "scores_b": {}, "repeat_of": None, "flipped": False,
            }
        )  # fmt: skip
    models = [
        {"key": "base", "label": "base", "run_id": run_id, "step": 0},
        {"key": "tuned", "label": "tuned", "run_id": run_id, "step": 9},
    ]
    kept = {"aspects": ["overall"], "repeats": 0, "active": False, "quota": None, "source": None}
    with writing() as session:
        made = reviews.create(session, name="s", owner="ada", settings=kept, seed=0, models=models, pairs=pairs)
    reviewer = invite(made)
    for _ in range(num_pairs):
        cast(reviewer, current(sit(reviewer)), choice)
    return made.id


def config_of(run_id: str) -> dict:
    with reading() as session:
        return runs.get(session, run_id).config


@pytest.fixture(scope="module")
def twenty(planted: tuple[Path, str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(planted[0]))
        patch.delenv("DATABASE_URL", raising=False)
        return judged_set(planted[0], FEWEST + 4)


@pytest.mark.parametrize("method", ["dpo", "dgpo"])
def test_one_request_queues_a_run_on_the_votes(client: TestClient, twenty: str, method: str):
    answer = client.post(f"/api/v1/review-sets/{twenty}/train", json={"method": method, "steps": 7, "name": "mine"})
    assert answer.status_code == 201
    config = config_of(answer.json()["id"])
    assert (config["name"], config["steps"], config["method"]["name"]) == ("mine", 7, method)
    assert config["method"]["group_size"] == 2
    found, files = judged_folder.read(Path(config["groups"]))
    assert len(found.pairs) == FEWEST + 4
    assert {file.stem for file in files.values()} == {pair.better for pair in found.pairs} | {
        pair.worse for pair in found.pairs
    }


def test_prompts_that_were_judged_are_not_evaluated_unless_wished(client: TestClient, twenty: str):
    path = f"/api/v1/review-sets/{twenty}/train"
    made, flattered = (client.post(path, json={"evaluate_judged": wish}).json()["id"] for wish in (False, True))
    assert config_of(made)["evaluation"]["leave_out"] == list(range(FEWEST + 4))
    assert config_of(flattered)["evaluation"]["leave_out"] == []


def test_the_run_has_the_model_of_the_run_that_was_judged(client: TestClient, data: Path):
    judged = load(preset_path("shapes-branchgrpo"), ["model.guidance=2", "evaluation.seeds=[5]"])
    with writing() as session:
        run = runs.create(session, name="j", config=judged.model_dump(mode="json"), preset=None, owner="ada")
    set_id = judged_set(data, FEWEST, run.id)
    config = config_of(client.post(f"/api/v1/review-sets/{set_id}/train", json={}).json()["id"])
    assert config["model"]["guidance"] == 2
    assert config["evaluation"]["seeds"] == [5]


def test_too_few_votes_are_refused_in_words(client: TestClient, data: Path):
    few = judged_set(data, FEWEST - 1)
    answer = client.post(f"/api/v1/review-sets/{few}/train", json={})
    assert answer.status_code == 422
    assert f"{FEWEST - 1} pairs are decided, fewer than {FEWEST}" in answer.json()["detail"]
    ties = judged_set(data, FEWEST, choice="tie")
    refused = client.post(f"/api/v1/review-sets/{ties}/train", json={}).json()["detail"]
    assert f"0 pairs are decided (left out: tie or both bad {FEWEST})" in refused


def test_what_cannot_be_asked_is_named(client: TestClient, twenty: str):
    assert client.post("/api/v1/review-sets/none/train", json={}).status_code == 404
    path = f"/api/v1/review-sets/{twenty}/train"
    for body in ({"method": "ppo"}, {"steps": 0}, {"name": " "}, {"lr": 1}):
        assert client.post(path, json=body).status_code == 422


def test_votes_whose_pictures_are_gone_are_refused(client: TestClient, data: Path):
    set_id = judged_set(data, FEWEST)
    gone = data / "planted" / f"{3:063d}b.png"
    kept = gone.read_bytes()
    gone.unlink()
    try:
        answer = client.post(f"/api/v1/review-sets/{set_id}/train", json={})
    finally:
        gone.write_bytes(kept)
    assert answer.status_code == 422
    assert f"the picture {3:063d}b is not on this machine" in answer.json()["detail"]


def test_a_reward_is_fitted_and_can_be_named_in_a_run(client: TestClient, twenty: str):
    answer = client.post(f"/api/v1/review-sets/{twenty}/reward", json={})
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert found["pairs"] == FEWEST + 4
    assert found["low"] <= found["accuracy"] <= found["high"]
    assert Path(found["file"]).is_file()
    # what it was fitted to stands beside the votes, in the launch form, and beside a run's evaluations
    listed = client.get(f"/api/v1/review-sets/{twenty}/reward").json()
    assert listed == {"fitting": None, "fitted": [found]}
    assert (found["set"], found["votes"], found["base"]) == ("s", FEWEST + 4, "shapes")
    assert f"to {FEWEST + 4} votes of “s”; prefers what was voted for in" in found["label"]
    assert client.get("/api/v1/rewards/learned").json() == [found]
    (rewards,) = [field for field in client.get("/api/v1/form").json()["fields"] if field["name"] == "rewards"]
    (file,) = [field for field in rewards["variants"]["learned"] if field["name"] == "file"]
    assert file["suggestions"] == [{"value": found["file"], "label": found["label"]}]
    assert learned_rewards.labels({"evaluation": {"rewards": [{"name": "learned", "file": found["file"]}]}}) == {
        "learned": found["label"]
    }
    config = load(preset_path("shapes-branchgrpo"), [f"rewards=[{{name: learned, file: {found['file']}}}]"])
    assert config.rewards[0].score(torch.rand(1, 1, 3, 64, 64), ["a ring"]).shape == (1,)


def test_too_few_votes_fit_no_reward(client: TestClient, data: Path):
    few = judged_set(data, 3)
    answer = client.post(f"/api/v1/review-sets/{few}/reward", json={})
    assert answer.status_code == 422
    assert f"3 pairs are decided, fewer than {FEWEST}" in answer.json()["detail"]
    assert client.get("/api/v1/review-sets/none/reward").status_code == 404


@contextmanager
def another_process() -> Iterator[int]:
    """The pid of one that lives until the block ends."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
        yield other.pid


def test_a_fit_under_way_is_told_and_not_started_again(
    client: TestClient, twenty: str, capsys: pytest.CaptureFixture[str]
):
    path = f"/api/v1/review-sets/{twenty}/reward"
    file = learned_rewards.folder() / f"{twenty}.progress"
    with learned_rewards.reporting(twenty) as report:
        report(64, 500)
        os.utime(file, (1, 1))  # loading a large base takes long, and says nothing
        assert client.get(path).json()["fitting"] == {"done": 64, "total": 500}
        assert client.post(path, json={}).status_code == 409
    assert not file.exists()
    with another_process() as pid:
        learned_rewards.hand_over(twenty, pid)
        assert votes_command.main(["fit", twenty, "--out", str(file.with_name("x.safetensors"))]) == 2
        assert "a reward is being fitted to these votes" in capsys.readouterr().err
        learned_rewards.release(twenty, os.getpid())
        assert client.get(path).json()["fitting"] == {"done": 0, "total": 0}  # it is not ours to end
    assert client.get(path).json()["fitting"] is None
    learned_rewards.claim(twenty)  # what a process left that is gone is no hindrance
    with pytest.raises(learned_rewards.UnderWay):
        learned_rewards.claim(twenty)
    learned_rewards.release(twenty, os.getpid())
    assert client.get(path).json()["fitting"] is None


def test_a_pid_that_another_process_has_by_now_is_no_fit(client: TestClient, twenty: str):
    learned_rewards.claim(twenty)
    file = learned_rewards.folder() / f"{twenty}.progress"
    note = json.loads(file.read_text())
    file.write_text(json.dumps(note | {"started": note["started"] - 60}))
    assert learned_rewards.fitting(twenty) is None
    file.write_text("")
    assert learned_rewards.fitting(twenty) == learned_rewards.Fitting(done=0, total=0)  # it is being written
    os.utime(file, (1, 1))
    assert learned_rewards.fitting(twenty) is None
    file.unlink()


def test_a_fit_is_claimed_before_its_process_starts_and_is_to_the_votes_of_then(
    client: TestClient, data: Path, monkeypatch: pytest.MonkeyPatch
):
    set_id = judged_set(data, FEWEST)
    path = f"/api/v1/review-sets/{set_id}/reward"
    with reading() as session:
        late = invite(reviews.get(session, set_id), "late")
    start, answers = subprocess.Popen, []

    def after_another_vote(command: list[str], **options: Any) -> Any:
        answers.append(client.post(path, json={}).status_code)
        cast(late, current(sit(late)))
        return start(command, **options)

    monkeypatch.setattr(subprocess, "Popen", after_another_vote)
    made = client.post(path, json={})
    assert made.status_code == 201, made.text
    assert answers == [409]
    assert made.json()["votes"] == FEWEST
    record = json.loads(Path(made.json()["file"]).with_suffix(".json").read_text())
    assert Path(record["folder"]).name in Path(made.json()["file"]).name
    assert record["set_id"] == set_id
    assert client.get(path).json() == {"fitting": None, "fitted": [made.json()]}


def test_a_fit_that_cannot_start_leaves_the_set_free(
    client: TestClient, twenty: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    path = f"/api/v1/review-sets/{twenty}/reward"
    refused = client.post(path, json={"base": str(tmp_path / "none")})
    assert refused.status_code == 422
    assert client.get(path).json()["fitting"] is None
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(FileNotFoundError):
        client.post(path, json={})
    assert client.get(path).json()["fitting"] is None


def test_a_set_id_goes_with_a_folder_alone(twenty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert votes_command.main(["fit", twenty, "--set-id", twenty, "--out", str(tmp_path / "x.safetensors")]) == 2
    assert "--set-id: " in capsys.readouterr().err


def test_a_day_is_written_alike_on_every_system():
    class Strict(datetime):
        """As where the C library knows no "%-d"."""

        def __format__(self, form: str) -> str:
            assert "%-" not in form
            return super().__format__(form)

    assert learned_rewards.day(Strict(2026, 3, 4)) == "4 Mar 2026"


def test_a_reward_without_its_record_has_no_label(data: Path, tmp_path: Path):
    assert learned_rewards.read(tmp_path / "none.safetensors") is None
    (tmp_path / "broken.json").write_text("{}")
    assert learned_rewards.read(tmp_path / "broken.safetensors") is None
    assert (
        learned_rewards.labels({"rewards": [{"name": "learned", "file": str(tmp_path / "broken.safetensors")}]}) == {}
    )
    assert learned_rewards.labels({"rewards": {"strict": 1.0}}) == {}  # settings of another version


def test_the_base_is_the_one_that_was_judged(client: TestClient, data: Path):
    judged = load(preset_path("shapes-branchgrpo"), []).model_dump(mode="json")
    judged["model"]["base"] = "mine"
    with writing() as session:
        run = runs.create(session, name="j", config=judged, preset=None, owner="ada")
    of_run, of_none = (vote_training.judged(judged_set(data, FEWEST, one))[0] for one in (run.id, None))
    assert (vote_training.base_judged(of_run), vote_training.base_judged(of_none)) == ("mine", "shapes")


def test_the_command_writes_a_config_that_trains_without_a_server(
    twenty: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "run.yaml"
    assert votes_command.main(["train", twenty, "--method", "dgpo", "--steps", "3", "--config", str(file)]) == 0
    assert load(file).method.name == "dgpo"
    assert Path(yaml.safe_load(file.read_text())["groups"]).parent == data / "votes"
    assert f"{FEWEST + 4} pairs are decided; left out: none" in capsys.readouterr().err


def test_the_command_says_what_is_wrong(data: Path, capsys: pytest.CaptureFixture[str]):
    assert votes_command.main(["train", "none"]) == 2
    assert "espalier votes: " in capsys.readouterr().err
