"""Training on the votes of a set, and rewards fitted to them, over HTTP and by the command."""

from __future__ import annotations

from pathlib import Path

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
from frontend_components.judging import votes_command
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
    config = load(preset_path("shapes-branchgrpo"), [f"rewards=[{{name: learned, file: {found['file']}}}]"])
    assert config.rewards[0].score(torch.rand(1, 1, 3, 64, 64), ["a ring"]).shape == (1,)


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
