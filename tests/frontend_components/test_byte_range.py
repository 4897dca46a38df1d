import pytest

from frontend_components.byte_range import ranged

DATA = b"0123456789"


@pytest.mark.parametrize(
    ("asked", "sent", "told"),
    [
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-30", DATA, "bytes 0-9/10"),
        ("bytes=8-99", b"89", "bytes 8-9/10"),
    ],
)
def test_one_range_is_sent(asked: str, sent: bytes, told: str) -> None:
    answer = ranged(DATA, "video/mp4", asked)
    assert (answer.status_code, answer.body, answer.headers["content-range"]) == (206, sent, told)


@pytest.mark.parametrize("asked", [None, "", "bytes=-", "bytes=1-2,4-5", "items=1-2", "bytes=a-b"])
def test_anything_else_gets_all(asked: str | None) -> None:
    answer = ranged(DATA, "image/png", asked)
    assert (answer.status_code, answer.body) == (200, DATA)
    assert answer.headers["content-type"] == "image/png"


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=5-4", "bytes=-0"])
def test_range_beyond_the_end_is_416(asked: str) -> None:
    answer = ranged(DATA, "video/mp4", asked)
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */10")
