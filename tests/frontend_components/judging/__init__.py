"""A review set of the demo run, and a reviewer's browser reduced to its requests."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

SETS = "/api/v1/review-sets"


def make_set(client: TestClient, run_id: str, **changes: Any) -> str:
    source = {"kind": "comparison", "run": run_id, "left": 0, "right": 8}
    answer = client.post(SETS, json={"name": "base against step 8", "source": source, "repeats": 0} | changes)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def invite(client: TestClient, set_id: str, pseudonym: str = "ada", quota: int | None = None) -> str:
    """The token."""
    answer = client.post(f"{SETS}/{set_id}/reviewers", json={"pseudonym": pseudonym, "quota": quota})
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def desk(client: TestClient, token: str) -> dict[str, Any]:
    return client.get(f"/api/v1/review/{token}").json()


def vote(client: TestClient, token: str, showing: str, choice: str = "left", **more: Any) -> Any:
    body = {"showing": showing, "choice": choice, "milliseconds": 900, "client_key": f"key-{showing}-{choice}"[:64]}
    return client.post(f"/api/v1/review/{token}/votes", json=body | more)


def judge_all(client: TestClient, token: str, choices: list[str]) -> None:
    """Votes in turn until nothing is left."""
    at = desk(client, token)
    while at["current"]:
        at = vote(client, token, at["current"]["id"], choices[at["done"] % len(choices)]).json()
