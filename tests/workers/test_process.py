from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil

from tests.workers.conftest import wait_until
from workers import process

PARENT = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('ready', flush=True); time.sleep(600)"


def parent() -> subprocess.Popen[bytes]:
    started = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, start_new_session=True)
    assert started.stdout is not None
    started.stdout.readline()
    started.stdout.close()
    return started


def test_descendants_are_killed_though_their_parent_is_gone() -> None:
    started = parent()
    family = process.descendants(started.pid)
    assert [member.name() for member in family] == ["sleep"]
    started.kill()
    started.wait()
    process.kill(family)
    assert not any(map(process.runs, family))
    assert process.descendants(started.pid) == set()
    process.kill(family)  # again: nothing to do, no error


def test_noted_process_is_ended_with_its_descendants(tmp_path: Path) -> None:
    started = parent()
    family = process.descendants(started.pid)
    process.note(started.pid, tmp_path / "trainer.json")
    process.end_noted(tmp_path / "trainer.json")
    started.wait()
    assert not any(map(process.runs, family))
    assert not (tmp_path / "trainer.json").exists()
    process.end_noted(tmp_path / "trainer.json")


def test_reused_pid_and_other_hosts_are_spared(tmp_path: Path) -> None:
    path = tmp_path / "trainer.json"
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        for change in ({"started": 1.0}, {"host": "elsewhere"}):
            process.note(bystander.pid, path)
            path.write_text(json.dumps(json.loads(path.read_text()) | change))
            process.end_noted(path)
            assert process.runs(psutil.Process(bystander.pid))
            assert not path.exists()
    finally:
        bystander.kill()
        bystander.wait()


def test_zombie_does_not_run() -> None:
    child = subprocess.Popen(["true"])
    seen = psutil.Process(child.pid)
    wait_until(lambda: not process.runs(seen))
    assert seen.status() == psutil.STATUS_ZOMBIE
    child.wait()
    assert not process.runs(seen)
