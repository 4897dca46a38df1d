"""The lab's password: what asks for it, what does not, and what a cookie is worth."""

from __future__ import annotations

import time

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from frontend_components.lock import COOKIE, Lock, is_open

PASSWORD = "correct horse"
BROWSER = {"Accept": "text/html,*/*"}


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each wrong answer would have waited."""
    found = []

    async def note(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("frontend_components.lock.sleep", note)
    return found


def lab(secure: bool = False, password: str = PASSWORD) -> TestClient:
    async def told(request):
        return PlainTextResponse(f"{request.method} {request.url.path}?{request.url.query}")

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()

    app = Starlette(
        routes=[WebSocketRoute("/socket", socket), Route("/{path:path}", told, methods=["GET", "POST", "DELETE"])]
    )
    app.add_middleware(Lock, password=password, secure=secure)
    return TestClient(app, base_url="https://lab.example" if secure else "http://127.0.0.1:7860")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/runs", "/leaderboard", "/reviews", "/reviewers", "/api/v1/review-sets", "/api/v1/review-sets/1/export",
        "/api/v1/runs", "/media/" + "a" * 64, "/events", "/api/docs", "/config", "/gradio_api/upload",
        "/ui/../api/v1/runs", "/review-media/../api/v1/runs", "//review/x", "/review/x",
    ],
)  # fmt: skip
def test_the_lab_is_closed(path: str):
    assert not is_open(path)


@pytest.mark.parametrize(
    "path",
    [
        "/review",
        "/theme.css",
        "/api/v1/review/token",
        "/api/v1/review/token/votes",
        "/review-media/1/left",
        "/ui/desk.js",
    ],
)
def test_the_desk_is_open(path: str):
    assert lab().get(path).status_code == 200
    assert lab().post(path).status_code == 200


def test_what_is_refused_says_how_to_enter():
    client = lab()
    told = client.get("/api/v1/runs")
    assert told.status_code == 401
    assert "Authorization: Bearer PASSWORD" in told.json()["detail"]
    form = client.get("/runs?state=done", headers=BROWSER)
    assert form.status_code == 401
    assert 'type="password"' in form.text
    assert form.headers["cache-control"] == "no-store"
    assert client.delete("/api/v1/runs/1").status_code == 401


def test_the_password_opens_the_page_that_was_asked_for():
    client = lab()
    entered = client.post("/runs?state=done", data={"password": PASSWORD}, headers=BROWSER)
    assert entered.status_code == 200
    assert entered.text == "GET /runs?state=done"
    assert client.get("/api/v1/runs").status_code == 200
    assert client.post("/api/v1/runs", json={}).status_code == 200
    client.cookies.clear()
    assert client.get("/api/v1/runs").status_code == 401


@pytest.mark.parametrize("given", ["", "correct horsf", "correct hors", "CORRECT HORSE", "x" * 10_000])
def test_another_password_opens_nothing(given: str):
    client = lab()
    refused = client.post("/runs", data={"password": given}, headers=BROWSER)
    assert refused.status_code == 401
    assert "not the password" in refused.text
    assert "set-cookie" not in refused.headers
    assert lab().get("/runs", headers={"Authorization": f"Bearer {given}"}).status_code == 401


def test_a_refused_post_never_reaches_the_application():
    entered = lab().post("/api/v1/runs", data={"password": PASSWORD}, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "?")


@pytest.mark.parametrize("secure", [False, True])
def test_scripts_cannot_read_the_cookie_and_other_sites_cannot_use_it(secure: bool):
    cookie = lab(secure).post("/", data={"password": PASSWORD}, follow_redirects=False).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert ("secure" in cookie) is secure
    assert PASSWORD not in cookie


def test_a_cookie_ends_and_cannot_be_made_up(monkeypatch: pytest.MonkeyPatch):
    client = lab()
    client.post("/", data={"password": PASSWORD})
    until, _, signature = client.cookies[COOKIE].partition(".")

    def status(value: str, of: TestClient | None = None) -> int:
        return (of or lab()).get("/runs", headers={"Cookie": f"{COOKIE}={value}".encode("latin-1")}).status_code

    assert status(f"{until}.{signature}") == 200
    for made_up in ("", ".", until, f"{int(until) + 1}.{signature}", f"{until}.{'0' * 64}", f"{until}.é", "x.y"):
        assert status(made_up) == 401
    assert status(f"{until}.{signature}", lab(password="another password")) == 401
    now = time.time()
    monkeypatch.setattr("frontend_components.lock.time.time", lambda: now + 31 * 86400)
    assert status(f"{until}.{signature}") == 401


def test_programs_send_the_password():
    assert lab().get("/api/v1/runs", headers={"Authorization": f"Bearer {PASSWORD}"}).status_code == 200
    assert lab().get("/api/v1/runs", headers={"Authorization": f"Basic {PASSWORD}"}).status_code == 401


@pytest.mark.parametrize("password", ["größtes Geheimnis", "voilà déjà", "пароль лаборатории", "正しい馬の電池"])
def test_a_password_of_any_letters_is_sent_as_utf_8(password: str):
    client = lab(password=password)
    sent = {"Authorization": b"Bearer " + password.encode()}
    assert client.get("/api/v1/runs", headers=sent).status_code == 200
    assert client.get("/api/v1/runs", headers={"Authorization": b"Bearer \xe9\xff"}).status_code == 401
    assert client.post("/runs", data={"password": password}, headers=BROWSER).status_code == 200


def test_a_wrong_password_is_answered_late_and_nothing_else_is(waited: list[float]):
    client = lab()
    client.get("/runs", headers=BROWSER)
    client.get("/api/v1/runs", headers={"Authorization": f"Bearer {PASSWORD}"})
    client.post("/runs", data={"password": PASSWORD}, headers=BROWSER)
    assert waited == []
    client = lab()
    client.post("/runs", data={"password": "a guess"}, headers=BROWSER)
    assert waited == [1.0]
    client.get("/api/v1/runs", headers={"Authorization": "Bearer guess"})
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/socket", headers={"Authorization": "Bearer guess"}),
    ):
        pass
    assert waited == [1.0] * 3


def test_a_socket_needs_the_password_too():
    with pytest.raises(WebSocketDisconnect), lab().websocket_connect("/socket"):
        pass
    with lab().websocket_connect("/socket", headers={"Authorization": f"Bearer {PASSWORD}"}):
        pass
