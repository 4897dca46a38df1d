"""`espalier serve` as a process of its own, for tests that need the whole program."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(data: Path, *flags: str, port: int | None = None, **environment: str) -> Iterator[str]:
    """`espalier serve` in a process of its own; yields its address. Without a port, a free one is taken."""
    port = port or free_port()
    env = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "CELERY_BROKER_URL")}
    env |= {"ESPALIER_DATA": str(data), **environment}
    command = [sys.executable, "-m", "app", "serve", "--port", str(port), *flags]
    with open(data / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        base = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(base) or server.poll() is not None, 300)
        assert server.poll() is None, (data / "server.log").read_text()
        yield base
    finally:
        server.terminate()
        server.wait(120)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(base: str) -> bool:
    try:
        with urllib.request.urlopen(base + "/api/v1/runs", timeout=5) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as refused:
        return refused.code == 401  # a lab with a password
    except OSError:
        return False


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.2)
