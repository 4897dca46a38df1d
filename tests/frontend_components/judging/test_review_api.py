from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from db import reviews
from db.session import reading
from frontend_components.judging import votes_command
from tests.frontend_components.judging import SETS, desk, invite, judge_all, make_set, vote


def pairs_of(set_id: str) -> list:
    with reading() as session:
        return reviews.pairs(session, set_id)


def test_comparison_pairs_both_steps_on_every_prompt_and_seed(client: TestClient, run_id: str) -> None:
    set_id = make_set(client, run_id)
    pairs = pairs_of(set_id)
    at = {
        step: {one["prompt_index"]: one for one in client.get(f"/api/v1/runs/{run_id}/samples/test/{step}").json()}
        for step in (0, 8)
    }
    step_of = {"base": 0, f"{run_id}:8": 8}
    assert sorted(pair.prompt_index for pair in pairs) == list(range(48))
    for pair in pairs:
        for model, sha, scores in (
            (pair.model_a, pair.sha_a, pair.scores_a),
            (pair.model_b, pair.sha_b, pair.scores_b),
        ):
            sample = at[step_of[model]][pair.prompt_index]
            assert (sample["sha256"], sample["seed"], sample["prompt"]) == (sha, pair.seed, pair.prompt)
            assert sample["scores"] == scores
    assert sum(pair.model_a == "base" for pair in pairs) == 24


def test_set_shows_models_settings_reviewers_and_progress(client: TestClient, run_id: str) -> None:
    set_id = make_set(client, run_id, quota=7, aspects=["quality"])
    token = invite(client, set_id)
    vote(client, token, desk(client, token)["current"]["id"])
    found = client.get(f"{SETS}/{set_id}").json()
    assert [(model["key"], model["label"]) for model in found["models"]] == [
        ("base", "base"),
        (f"{run_id}:8", "branchgrpo-shapes step 8"),
    ]
    assert found["settings"]["aspects"] == ["overall", "quality"]
    assert found["settings"]["source"]["run"] == run_id
    (reviewer,) = found["reviewers"]
    assert (reviewer["pseudonym"], reviewer["done"], reviewer["quota"]) == ("ada", 1, 7)
    assert reviewer["url"].endswith(f"/review?t={token}")
    assert found["progress"] == {"votes": 1, "pairs": 48}
    (line,) = [one for one in client.get(SETS).json() if one["id"] == set_id]
    assert (line["pairs"], line["votes"], line["reviewers"], line["closed_at"]) == (48, 1, 1, None)


def test_equal_seeds_draw_equal_pairs_and_repeats_are_a_share(client: TestClient, run_id: str) -> None:
    drawn = [
        [(pair.prompt_index, pair.model_a, pair.repeat_of is None, pair.flipped) for pair in pairs_of(set_id)]
        for set_id in (make_set(client, run_id, seed=seed, repeats=0.1) for seed in (3, 3, 4))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sum(not first_view for _, _, first_view, _ in drawn[0]) == 5  # 10 % of 48


def test_only_broken_prompts(client: TestClient, run_id: str) -> None:
    source = {"kind": "comparison", "run": run_id, "left": 8, "right": 0, "only": "broken"}
    for pair in pairs_of(make_set(client, run_id, source=source)):
        base, tuned = (pair.scores_a, pair.scores_b) if pair.model_a == "base" else (pair.scores_b, pair.scores_a)
        assert base["strict"] < tuned["strict"]


def test_only_prompts_of_a_file(client: TestClient, run_id: str) -> None:
    source = {"kind": "prompts", "run": run_id, "left": 0, "right": 8, "prompts": ["a yellow square ", "unheard of"]}
    pairs = pairs_of(make_set(client, run_id, source=source))
    assert {pair.prompt for pair in pairs} == {"a yellow square"}
    assert len(pairs) == 8


def test_several_models_are_compared_two_by_two(client: TestClient, run_id: str) -> None:
    from tests.frontend_components import demo

    other = demo.plant(name="other", steps=8, total=8)
    models = [{"run": run_id, "step": 0}, {"run": run_id, "step": 8}, {"run": other, "step": 8}]
    pairs = pairs_of(make_set(client, run_id, source={"kind": "runs", "models": models}))
    assert len(pairs) == 3 * 48
    assert len({frozenset({pair.model_a, pair.model_b}) for pair in pairs[:3]}) == 3


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"kind": "comparison", "left": 0, "right": 3}, "no held-out samples at step 3; it has them at steps 0, 8"),
        ({"kind": "comparison", "left": 8, "right": 8}, "step 8 is there twice"),
        ({"kind": "comparison", "run": "nothing", "left": 0, "right": 8}, "run nothing"),
        ({"kind": "prompts", "left": 0, "right": 8, "prompts": ["unheard of"]}, "none of them is among"),
        ({"kind": "runs", "models": [{"run": "RUN", "step": 0}, {"run": "RUN", "step": 0}]}, "base is there twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_compared_is_told(client: TestClient, run_id: str, source: dict, told: str) -> None:
    source = json.loads(
        json.dumps({"run": run_id} | source if source["kind"] != "runs" else source).replace("RUN", run_id)
    )
    answer = client.post(SETS, json={"name": "no", "source": source})
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


@pytest.mark.parametrize("wrong", [{"repeats": 0.5}, {"repeats": 0.01}, {"aspects": ["smell"]}, {"quota": 0}, {"x": 1}])
def test_settings_out_of_bounds_are_refused(client: TestClient, run_id: str, wrong: dict) -> None:
    source = {"kind": "comparison", "run": run_id, "left": 0, "right": 8}
    assert client.post(SETS, json={"name": "no", "source": source} | wrong).status_code == 422


def test_unknown_set_is_404(client: TestClient) -> None:
    for path in ("", "/leaderboard", "/export", "/pairs/1"):
        assert client.get(f"{SETS}/nothing{path}").status_code == 404
    for path in ("/reviewers", "/close", "/open"):
        assert client.post(f"{SETS}/nothing{path}", json={"pseudonym": "ada"}).status_code == 404


@pytest.mark.parametrize("pseudonym", ["", "  ", "a\0b", "x" * 101])
def test_reviewer_needs_a_pseudonym(client: TestClient, run_id: str, pseudonym: str) -> None:
    set_id = make_set(client, run_id)
    assert client.post(f"{SETS}/{set_id}/reviewers", json={"pseudonym": pseudonym}).status_code == 422


def test_pseudonym_is_had_once(client: TestClient, run_id: str) -> None:
    set_id = make_set(client, run_id)
    invite(client, set_id)
    again = client.post(f"{SETS}/{set_id}/reviewers", json={"pseudonym": " ada "})
    assert again.status_code == 409
    assert "ada" in again.json()["detail"]


def test_leaderboard_follows_the_votes(client: TestClient, run_id: str) -> None:
    set_id = make_set(client, run_id)
    token = invite(client, set_id, quota=20)
    assert client.get(f"{SETS}/{set_id}/leaderboard").json()["votes"] == 0
    judge_all(client, token, ["left", "right", "tie", "skip"])
    found = client.get(f"{SETS}/{set_id}/leaderboard").json()
    assert (found["votes"], found["base"]) == (15, "base")
    assert found["tie_share"] == pytest.approx(5 / 15)
    assert found["sides"]["left"] == 5
    assert found["models"][0]["rating"] is not None
    pair = found["rewards"][0]["disagreements"]
    if pair:
        shown = client.get(f"{SETS}/{set_id}/pairs/{pair[0]['pair']}").json()
        assert {shown["label_a"], shown["label_b"]} == {"base", "branchgrpo-shapes step 8"}


def test_native_file_comes_back_as_the_same_set(client: TestClient, run_id: str) -> None:
    set_id = make_set(client, run_id, repeats=0.1, aspects=["quality"], quota=30)
    ada, bob = invite(client, set_id), invite(client, set_id, "bob", 9)
    judge_all(client, ada, ["left", "right", "tie", "both_bad", "skip"])
    at = desk(client, bob)
    at = vote(client, bob, at["current"]["id"], "right", aspects={"quality": "tie"}).json()
    vote(client, bob, at["current"]["id"])
    client.post(f"/api/v1/review/{bob}/undo")
    written = client.get(f"{SETS}/{set_id}/export")
    assert "attachment" in written.headers["content-disposition"]
    assert ada not in written.text  # no secret link
    made = client.post(f"{SETS}/import", files={"file": ("votes.json", written.content)})
    assert made.status_code == 201
    assert made.json()["id"] != set_id
    again = client.get(f"{SETS}/{made.json()['id']}/export")
    assert again.content == written.content
    assert '"undone_at":' in written.text


def test_restored_set_can_be_judged_on(client: TestClient, run_id: str) -> None:
    set_id = make_set(client, run_id)
    token = invite(client, set_id)
    vote(client, token, desk(client, token)["current"]["id"])
    written = client.get(f"{SETS}/{set_id}/export").content
    made = client.post(f"{SETS}/import", files={"file": ("votes.json", written)}).json()["id"]
    (reviewer,) = client.get(f"{SETS}/{made}").json()["reviewers"]
    at = desk(client, reviewer["token"])
    assert (at["done"], at["total"]) == (1, 48)
    assert vote(client, reviewer["token"], at["current"]["id"]).status_code == 200
    assert client.post(f"/api/v1/review/{reviewer['token']}/undo").json()["current"] == at["current"]


@pytest.mark.parametrize("form", ["pickapic", "hpd", "videoalign", "chosen_rejected"])
def test_other_files_come_in_as_a_closed_set(client: TestClient, run_id: str, form: str) -> None:
    set_id = make_set(client, run_id)
    judge_all(client, invite(client, set_id, quota=10), ["left", "right"])
    written = client.get(f"{SETS}/{set_id}/export", params={"format": form})
    assert written.status_code == 200
    made = client.post(f"{SETS}/import", files={"file": ("v", written.content)}, data={"format": form})
    assert made.status_code == 201, made.text
    found = client.get(f"{SETS}/{made.json()['id']}").json()
    assert found["closed_at"] is not None
    assert found["progress"]["votes"] == 10
    board = client.get(f"{SETS}/{made.json()['id']}/leaderboard").json()
    assert board["sides"]["left"] == 5


def test_file_that_is_not_one_is_refused(client: TestClient) -> None:
    for form, content in (("native", b"{}"), ("hpd", b'{"a": 1}'), ("pickapic", b"a,b\n1,2\n"), ("what", b"")):
        answer = client.post(f"{SETS}/import", files={"file": ("v", content)}, data={"format": form})
        assert answer.status_code == 422
        assert isinstance(answer.json()["detail"], str)


def test_set_without_its_pictures_is_not_opened(client: TestClient, run_id: str) -> None:
    set_id = make_set(client, run_id)
    archive = client.get(f"{SETS}/{set_id}/export").json()
    archive["pairs"][0]["image_a"] = "elsewhere.png"
    made = client.post(f"{SETS}/import", files={"file": ("v", json.dumps(archive).encode())}).json()["id"]
    assert client.get(f"{SETS}/{made}").json()["closed_at"] is not None
    assert client.post(f"{SETS}/{made}/open").status_code == 409
    assert client.get(f"{SETS}/{made}").json()["closed_at"] is not None


def test_command_writes_and_reads_the_same_files(
    client: TestClient, run_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_id = make_set(client, run_id)
    judge_all(client, invite(client, set_id, quota=5), ["left"])
    file = tmp_path / "votes.json"
    assert votes_command.main(["export", set_id, "--out", str(file)]) == 0
    assert file.read_bytes() == client.get(f"{SETS}/{set_id}/export").content
    capsys.readouterr()
    assert votes_command.main(["import", str(file)]) == 0
    assert client.get(f"{SETS}/{capsys.readouterr().out.strip()}/export").content == file.read_bytes()
    assert votes_command.main(["export", "nothing", "--out", str(file)]) == 2
    assert "review set nothing" in capsys.readouterr().err
