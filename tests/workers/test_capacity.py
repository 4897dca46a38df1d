from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers import capacity


def test_gpus_are_those_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b")
    assert capacity.gpus() == ["GPU-a", "GPU-b"]
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert capacity.gpus() == []


def test_gpus_are_else_those_that_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert capacity.gpus() == []
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-1)'\necho '  MIG 1g'\necho 'GPU 1: NVIDIA H200'\n"
    )
    program.chmod(0o755)
    assert capacity.gpus() == ["0", "1"]


def test_a_slot_has_its_share_of_the_gpus_or_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    eight = [str(index) for index in range(8)]
    assert [capacity.processes(slots, eight) for slots in (1, 2, 3, 16)] == [8, 4, 2, 1]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    assert [capacity.processes(slots, []) for slots in (1, 2, 12)] == [6, 3, 1]


def test_gpus_without_nvidia_smi_are_those_that_pytorch_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(capacity, "DEVICES", (str(tmp_path),))
    monkeypatch.setattr(capacity, "COUNT", "print(3)")
    assert capacity.gpus() == ["0", "1", "2"]


def test_a_program_that_does_not_answer_counts_as_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(capacity, "LISTING_SECONDS", 0.2)
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert capacity.gpus() == []
