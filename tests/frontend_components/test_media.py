from starlette.testclient import TestClient


def sha_of(client: TestClient, run_id: str) -> str:
    return client.get(f"/api/v1/runs/{run_id}/samples/fixed/0").json()[0]["sha256"]


def test_media_is_immutable_and_typed(client: TestClient, run_id: str):
    sha = sha_of(client, run_id)
    answer = client.get(f"/media/{sha}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/webp"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["etag"] == f'"{sha}"'


def test_known_copy_is_not_sent_again(client: TestClient, run_id: str):
    sha = sha_of(client, run_id)
    answer = client.get(f"/media/{sha}", headers={"If-None-Match": f'"{sha}"'})
    assert (answer.status_code, answer.content) == (304, b"")


def test_range_is_honoured(client: TestClient, run_id: str):
    sha = sha_of(client, run_id)
    whole = client.get(f"/media/{sha}").content
    part = client.get(f"/media/{sha}", headers={"Range": "bytes=4-9"})
    assert part.status_code == 206
    assert part.content == whole[4:10]


def test_only_a_hash_names_media(client: TestClient):
    for name in ("..%2f..%2fespalier.db", "A" * 64, "0" * 63, "espalier.db"):
        assert client.get(f"/media/{name}").status_code in (404, 422)
    assert client.get("/media/" + "0" * 64).status_code == 404
