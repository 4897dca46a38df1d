import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from frontend_components.guard import Guard


def site(host: str = "127.0.0.1", public_url: str | None = None) -> TestClient:
    async def page(request):
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/", page, methods=["GET", "POST"])])
    app.add_middleware(Guard, host=host, public_url=public_url)
    return TestClient(app, base_url="http://127.0.0.1:7860")


@pytest.mark.parametrize("origin", ["http://127.0.0.1:7860", None])
def test_own_pages_and_scripts_may_post(origin: str | None):
    assert site().post("/", headers={"Origin": origin} if origin else {}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_other_origins_may_not_post_but_read(origin: str):
    refused = site().post("/", headers={"Origin": origin})
    assert refused.status_code == 403
    assert "PUBLIC_URL" in refused.text
    assert site().get("/", headers={"Origin": origin}).status_code == 200


def test_loopback_server_answers_to_loopback_names_only():
    assert site().get("/", headers={"Host": "evil.example"}).status_code == 403
    assert site().get("/", headers={"Host": "localhost:7860"}).status_code == 200
    assert site(host="0.0.0.0").get("/", headers={"Host": "lab.example"}).status_code == 200


def test_public_url_is_an_own_name_and_origin():
    behind_proxy = site(public_url="https://lab.example/espalier")
    headers = {"Host": "lab.example", "Origin": "https://lab.example"}
    assert behind_proxy.post("/", headers=headers).status_code == 200
    assert behind_proxy.post("/", headers={"Origin": "https://lab.example"}).status_code == 200


def test_every_answer_is_closed():
    headers = site().get("/").headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
