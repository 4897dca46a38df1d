from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.testclient import TestClient

from frontend_components.body_limit import MOST, BodyLimit


class Text(BaseModel):
    text: str


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.add_middleware(BodyLimit)

    @app.post("/api/v1/review/token/votes")
    @app.post("/api/v1/review-sets")
    def length(body: Text) -> int:
        return len(body.text)

    return TestClient(app)


def in_parts(length: int) -> Iterator[bytes]:
    """A JSON body of a length that is not told beforehand."""
    yield b'{"text": "'
    for _ in range(length // 1000):
        yield b"x" * 1000
    yield b'"}'


def test_short_bodies_pass(client: TestClient) -> None:
    assert client.post("/api/v1/review/token/votes", json={"text": "x" * 16_000}).json() == 16_000
    assert client.post("/api/v1/review-sets", json={"text": "x" * 100_000}).json() == 100_000


def test_told_length_is_refused_at_once(client: TestClient) -> None:
    answer = client.post("/api/v1/review/token/votes", json={"text": "x" * 17_000})
    assert answer.status_code == 413
    assert "16384" in answer.json()["detail"]
    assert client.post("/api/v1/review-sets", json={"text": "x" * MOST}).status_code == 413


def test_untold_length_is_refused_while_it_is_read(client: TestClient) -> None:
    sent = {"content": in_parts(40_000), "headers": {"Content-Type": "application/json"}}
    assert client.post("/api/v1/review/token/votes", **sent).status_code == 413
    sent = {"content": in_parts(10_000), "headers": {"Content-Type": "application/json"}}
    assert client.post("/api/v1/review/token/votes", **sent).json() == 10_000
