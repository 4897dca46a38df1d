"""Sets of two samples of one model, and sets of failures."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from starlette.testclient import TestClient

from db import reviews, samples
from db.session import reading, writing
from tests.frontend_components import demo
from tests.frontend_components.judging import SETS, desk, invite, judge_all, make_set, vote

SECOND = 7


@pytest.fixture(scope="module")
def run_of_seeds(planted: tuple) -> str:
    """A demo run whose first 20 held-out prompts have a second sample at step 8: that of the next prompt, as seed 7."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(planted[0]))
        patch.delenv("DATABASE_URL", raising=False)
        made = demo.plant(name="two seeds", steps=8, total=8)
        with writing() as session:
            kept = samples.at(session, made, "test", 8)
            more = [
                {
                    "prompt_index": one.prompt_index,
                    "prompt": one.prompt,
                    "task": one.task,
                    "seed": SECOND,
                    "sha256": other.sha256,
                    "scores": {"strict": float(one.prompt_index % 2), "quality": one.prompt_index / 100},
                }
                for one, other in pairwise(kept[:21])
            ]
            samples.put(session, made, "test", 8, more)
    return made


def pairs_of(set_id: str) -> list:
    with reading() as session:
        return reviews.pairs(session, set_id)


def seeds_set(client: TestClient, run: str, **source: object) -> str:
    return make_set(client, run, source={"kind": "seeds", "run": run, "step": 8} | source)


def test_pairs_of_one_model_are_its_samples_of_one_prompt(client: TestClient, run_of_seeds: str) -> None:
    with reading() as session:
        stored = {(one.prompt_index, one.seed): one for one in samples.at(session, run_of_seeds, "test", 8)}
    pairs = pairs_of(seeds_set(client, run_of_seeds))
    assert sorted(pair.prompt_index for pair in pairs) == list(range(20))  # the other 28 have one sample
    for pair in pairs:
        assert pair.model_a == pair.model_b == f"{run_of_seeds}:8"
        assert {pair.seed, pair.seed_b} == {SECOND, 500 + pair.prompt_index}
        for seed, sha, scores in ((pair.seed, pair.sha_a, pair.scores_a), (pair.seed_b, pair.sha_b, pair.scores_b)):
            assert (stored[pair.prompt_index, seed].sha256, stored[pair.prompt_index, seed].scores) == (sha, scores)
    assert sum(pair.seed == SECOND for pair in pairs) == 10  # A as often as B


def test_the_desk_tells_nothing_of_seeds(client: TestClient, run_of_seeds: str) -> None:
    token = invite(client, seeds_set(client, run_of_seeds))
    sides = set()
    for _ in range(20):
        at = desk(client, token)
        shown = at["current"]
        assert shown.keys() == {"id", "prompt", "kind", "left", "right"}
        assert shown["left"] == f"/review-media/{shown['id']}/left"
        left, right = client.get(shown["left"]), client.get(shown["right"])
        assert {**left.headers, "etag": ""} == {**right.headers, "etag": ""}
        assert len(left.content) == len(right.content)
        with reading() as session:
            from db import showings

            showing, pair = showings.get(session, shown["id"])
            sides.add(showing.a_is_left == (pair.seed == SECOND))
        vote(client, token, shown["id"])
    assert sides == {True, False}  # drawn by a coin, so that neither seed has a side of its own


def test_votes_on_one_model_rate_it_not_but_tell_of_rewards(client: TestClient, run_of_seeds: str) -> None:
    set_id = seeds_set(client, run_of_seeds)
    judge_all(client, invite(client, set_id), ["left", "right"])
    found = client.get(f"{SETS}/{set_id}/leaderboard").json()
    assert (found["votes"], found["of_one_model"], found["comparisons"]) == (20, 20, [])
    assert found["models"][0]["outcomes"] == {"wins": 0, "losses": 0, "ties": 0, "both_bad": 0}
    assert {one["reward"] for one in found["rewards"]} == {"quality", "strict"}
    told = {one["pair"] for reward in found["rewards"] for one in reward["disagreements"]}
    shown = client.get(f"{SETS}/{set_id}/pairs/{told.pop()}").json()
    assert SECOND in (shown["seed"], shown["seed_b"])


def test_a_file_brings_pairs_of_one_model_back(client: TestClient, run_of_seeds: str) -> None:
    set_id = seeds_set(client, run_of_seeds)
    judge_all(client, invite(client, set_id, quota=6), ["left", "right"])
    written = client.get(f"{SETS}/{set_id}/export").content
    made = client.post(f"{SETS}/import", files={"file": ("votes.json", written)}).json()["id"]
    assert client.get(f"{SETS}/{made}/export").content == written
    assert all(pair["seed_b"] is not None for pair in json.loads(written)["pairs"])


def test_pairs_of_one_model_can_be_of_listed_or_failed_prompts(client: TestClient, run_of_seeds: str) -> None:
    listed = pairs_of(seeds_set(client, run_of_seeds, prompts=["a yellow square"]))
    assert {pair.prompt for pair in listed} == {"a yellow square"}
    failed = pairs_of(seeds_set(client, run_of_seeds, only="failed"))
    assert 0 < len(failed) < 20
    for pair in failed:
        assert 0.0 in (pair.scores_a["strict"], pair.scores_b["strict"])


def test_failures_of_the_right_step(client: TestClient, run_id: str) -> None:
    source = {"kind": "comparison", "run": run_id, "left": 0, "right": 8, "only": "failed"}
    at = client.get(f"/api/v1/runs/{run_id}/samples/test/8").json()
    wrong = {one["prompt_index"] for one in at if one["scores"]["strict"] == 0}
    assert {pair.prompt_index for pair in pairs_of(make_set(client, run_id, source=source))} == wrong


def test_samples_that_score_lowest_under_a_reward(client: TestClient, run_id: str) -> None:
    lowest = {"reward": "quality", "count": 5}
    source = {"kind": "comparison", "run": run_id, "left": 0, "right": 8, "only": lowest}
    at = client.get(f"/api/v1/runs/{run_id}/samples/test/8").json()
    wanted = sorted(at, key=lambda one: one["scores"]["quality"])[:5]
    found = pairs_of(make_set(client, run_id, source=source))
    assert {pair.prompt_index for pair in found} == {one["prompt_index"] for one in wanted}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"kind": "seeds", "step": 8}, "kept one sample of each of these prompts at step 8"),
        ({"kind": "seeds", "step": 3}, "no held-out samples at step 3"),
        (
            {"kind": "seeds", "step": 8, "prompts": ["unheard of"]},
            "none of them is among the held-out prompts that the run kept at step 8",
        ),
        (
            {"kind": "prompts", "left": 0, "right": 8, "prompts": ["unheard of"]},
            "none of them is among the held-out prompts that both sides have",
        ),
        (
            {"kind": "comparison", "left": 0, "right": 8, "only": {"reward": "beauty", "count": 5}},
            "no score 'beauty'; they have quality, strict",
        ),
    ],
    ids=["one seed", "no step", "no prompt", "no prompt of two", "no reward"],
)
def test_what_cannot_be_paired_is_told(client: TestClient, run_id: str, source: dict, told: str) -> None:
    answer = client.post(SETS, json={"name": "no", "source": {"run": run_id} | source})
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


@pytest.mark.parametrize("source", [{"only": "broken"}, {"only": {"reward": "quality", "count": 0}}])
def test_pairs_of_one_model_have_no_left_and_right(client: TestClient, run_of_seeds: str, source: dict) -> None:
    body = {"name": "no", "source": {"kind": "seeds", "run": run_of_seeds, "step": 8} | source}
    assert client.post(SETS, json=body).status_code == 422


def test_no_pair_of_one_model_tells_more_than_another(client: TestClient, run_of_seeds: str) -> None:
    body = {"name": "no", "source": {"kind": "seeds", "run": run_of_seeds, "step": 8}, "active": True}
    answer = client.post(SETS, json=body)
    assert answer.status_code == 422
    assert "active" in answer.text
