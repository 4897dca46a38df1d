import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.frontend_components.serving import ROOT, serving

NOWHERE = "redis://127.0.0.1:1/0"


def fetch(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


def test_every_page_has_its_own_address(tmp_path: Path):
    with serving(tmp_path, "--no-worker", CELERY_BROKER_URL=NOWHERE) as base:
        for path in ("/", "/runs", "/run?id=x", "/tree?id=x&step=1&prompt=0", "/compare?run=x"):
            status, headers, text = fetch(base + path)
            assert status == 200
            assert "ui/early.js" in text
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert fetch(base + "/ui/plotly.min.js")[0] == 200
        assert fetch(base + "/runs", Host="evil.example")[0] == 403
        assert fetch(base + "/media/..%2f..%2fespalier.db")[0] in (404, 422)
        assert "/api/v1/runs" in fetch(base + "/api/v1/openapi.json")[2]
    told = (tmp_path / "server.log").read_text()
    assert [stage for stage in ("database", "broker", "worker", "pages") if stage in told] == ["database", "pages"]
    assert "Traceback" not in told


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_on_a_signal_and_says_nothing_ugly(tmp_path: Path, sent: signal.Signals):
    with serving(tmp_path, "--no-worker"):
        (pid,) = server_pids(tmp_path)
        os.kill(pid, sent)
    told = (tmp_path / "server.log").read_text()
    assert "Traceback" not in told
    assert server_pids(tmp_path) == []


def server_pids(data: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        environ = process.info["environ"] or {}
        if environ.get("ESPALIER_DATA") == str(data) and "serve" in (process.info["cmdline"] or []):
            found.append(process.pid)
    return found


def test_a_taken_port_is_told_in_one_line(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "app", "serve", "--no-worker", "--port", str(taken.getsockname()[1])]
        environment = os.environ | {"ESPALIER_DATA": str(tmp_path), "CELERY_BROKER_URL": NOWHERE}
        told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert told.returncode == 1
    assert "--port" in told.stderr
    assert told.stderr.count("\n") == 1


def test_importing_the_server_does_not_import_torch_or_gradio():
    script = "import sys, frontend_components.server; print('torch' in sys.modules, 'gradio' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False"]
