from __future__ import annotations

import io
import re

import pytest
from PIL import Image
from starlette.testclient import TestClient

from db import artifacts, showings, votes
from db.session import reading
from db.settings import settings
from tests.frontend_components.judging import SETS, desk, invite, make_set, vote


@pytest.fixture
def set_id(client: TestClient, run_id: str) -> str:
    return make_set(client, run_id, aspects=["overall", "quality"])


@pytest.fixture
def token(client: TestClient, set_id: str) -> str:
    return invite(client, set_id)


def stored(set_id: str) -> list[str]:
    with reading() as session:
        return [ballot.vote.choice for ballot in votes.standing(session, set_id)]


def test_desk_says_what_to_judge_and_nothing_that_tells_the_models(
    client: TestClient, set_id: str, token: str, run_id: str
) -> None:
    answer = client.get(f"/api/v1/review/{token}")
    found = answer.json()
    assert found.keys() == {
        "set", "pseudonym", "aspects", "done", "total", "can_undo", "closed", "current", "next",
    }  # fmt: skip
    assert (found["pseudonym"], found["done"], found["total"], found["can_undo"]) == ("ada", 0, 48, False)
    assert found["aspects"] == ["overall", "quality"]
    assert found["current"].keys() == {"id", "prompt", "kind", "left", "right"}
    assert found["current"]["left"] == f"/review-media/{found['current']['id']}/left"
    with reading() as session:
        _, pair = showings.get(session, found["current"]["id"])
    for secret in (run_id, "branchgrpo", "base", "step", pair.sha_a, pair.sha_b, "scores"):
        assert secret not in answer.text
    assert not re.search(r"[0-9a-f]{64}", answer.text)


def test_wrong_token_is_404_everywhere(client: TestClient, token: str) -> None:
    showing = desk(client, token)["current"]["id"]
    for wrong in ("A" * 22, token[:-1] + ("a" if token[-1] != "a" else "b")):
        assert client.get(f"/api/v1/review/{wrong}").status_code == 404
        assert vote(client, wrong, showing).status_code == 404
        assert client.post(f"/api/v1/review/{wrong}/undo").status_code == 404


def test_vote_moves_the_desk_on_and_undo_brings_the_pair_back(client: TestClient, set_id: str, token: str) -> None:
    before = desk(client, token)
    after = vote(client, token, before["current"]["id"], "tie", aspects={"quality": "right"}).json()
    assert (after["done"], after["can_undo"], after["current"]) == (1, True, before["next"])
    back = client.post(f"/api/v1/review/{token}/undo").json()
    assert (back["done"], back["current"], back["next"]) == (0, before["current"], before["next"])
    assert stored(set_id) == []


def test_vote_that_is_sent_again_is_answered_again(client: TestClient, set_id: str, token: str) -> None:
    showing = desk(client, token)["current"]["id"]
    answers = [vote(client, token, showing) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert answers[0].json() == answers[2].json()
    assert stored(set_id) == ["left"]


def test_other_answer_to_an_answered_pair_is_409_with_the_desk(client: TestClient, set_id: str, token: str) -> None:
    showing = desk(client, token)["current"]["id"]
    first = vote(client, token, showing, "left").json()
    refused = vote(client, token, showing, "right")
    assert (refused.status_code, refused.json()) == (409, first)
    assert stored(set_id) == ["left"]


def test_closed_set_is_409_with_a_desk_that_says_so(client: TestClient, set_id: str, token: str) -> None:
    showing = desk(client, token)["current"]["id"]
    client.post(f"{SETS}/{set_id}/close")
    refused = vote(client, token, showing)
    assert refused.status_code == 409
    assert (refused.json()["closed"], refused.json()["current"]) == (True, None)


def test_undo_that_is_sent_again_takes_back_one_vote(client: TestClient, set_id: str, token: str) -> None:
    at = desk(client, token)
    for _ in range(3):
        at = vote(client, token, at["current"]["id"]).json()
    body = {"showing": at["current"]["id"]}
    once = client.post(f"/api/v1/review/{token}/undo", json=body).json()
    assert client.post(f"/api/v1/review/{token}/undo", json=body).json() == once
    assert len(stored(set_id)) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"choice": "both"},
        {"choice": "a"},
        {"aspects": {"quality": "up"}},
        {"aspects": {"motion": "left"}},
        {"milliseconds": -1},
        {"client_key": "short"},
        {"client_key": "x" * 65},
        {"client_key": "nul \0 nul nul"},
        {"showing": "\0" * 32},
        {"model": "base"},
    ],
    ids=str,
)
def test_vote_that_makes_no_sense_is_refused(client: TestClient, set_id: str, token: str, wrong: dict) -> None:
    showing = desk(client, token)["current"]["id"]
    assert vote(client, token, **({"showing": showing} | wrong)).status_code == 422
    assert stored(set_id) == []


def test_showing_of_another_reviewer_is_404(client: TestClient, set_id: str, token: str) -> None:
    theirs = desk(client, invite(client, set_id, "bob"))["current"]["id"]
    assert vote(client, token, theirs).status_code == 404


def test_media_of_both_sides_have_the_same_headers_and_length(client: TestClient, token: str) -> None:
    current = desk(client, token)["current"]
    left, right = client.get(current["left"]), client.get(current["right"])
    assert dict(left.headers) == dict(right.headers)
    assert left.headers["cache-control"].startswith("private")
    assert left.headers["content-type"] == "image/png"
    assert "etag" not in left.headers
    assert "content-disposition" not in left.headers


def test_media_show_the_stored_pixels_on_the_drawn_side(client: TestClient, token: str) -> None:
    current = desk(client, token)["current"]
    with reading() as session:
        shown, pair = showings.get(session, current["id"])
        left_hash = pair.sha_a if shown.a_is_left else pair.sha_b
        path = settings().data / artifacts.get(session, left_hash).path
    sent = Image.open(io.BytesIO(client.get(current["left"]).content))
    assert sent.tobytes() == Image.open(path).convert("RGB").tobytes()
    assert sent.info == {}


def test_media_of_unknown_showings_are_404(client: TestClient) -> None:
    assert client.get(f"/review-media/{'0' * 32}/left").status_code == 404
    assert client.get(f"/review-media/{'0' * 32}/middle").status_code == 422
    assert client.get("/review-media/..%2f..%2fespalier.db/left").status_code in (404, 422)


def test_active_set_is_put_in_order_as_votes_come(client: TestClient, run_id: str) -> None:
    from db import reviews

    set_id = make_set(client, run_id, active=True, repeats=0.1)
    token = invite(client, set_id)
    at = desk(client, token)
    for _ in range(10):
        at = vote(client, token, at["current"]["id"]).json()
    with reading() as session:
        pairs = reviews.pairs(session, set_id)
    assert sum(pair.place < 0 and pair.repeat_of is None for pair in pairs) == 36  # 48 less those handed out
    assert all(pair.place < -1000 for pair in pairs if pair.repeat_of is not None)
