"""How many processes a run may have on this machine: one a GPU, or one a core where there is none."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

logger = logging.getLogger(__name__)

LISTING_SECONDS = 30.0
DEVICES = ("/dev/nvidia0", "/dev/kfd")  # of CUDA and of ROCm
COUNT = "import torch; print(torch.cuda.device_count())"


def gpus() -> list[str]:
    """The GPUs of this worker: those that CUDA_VISIBLE_DEVICES names, else all that nvidia-smi or PyTorch lists."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    if program := shutil.which("nvidia-smi"):
        return _numbered(sum(map(_names_a_gpu, _said([program, "--list-gpus"]).splitlines())))
    if any(Path(device).exists() for device in DEVICES):  # a container without the program, or a GPU of another maker
        return _numbered(int(_said([sys.executable, "-c", COUNT]) or 0))
    return []


def _numbered(count: int) -> list[str]:
    return [str(index) for index in range(count)]


def _said(command: list[str]) -> str:
    """What a program printed; nothing when it does not answer."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=LISTING_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        logger.warning("%s did not answer within %d s, so this worker counts no GPU", command[0], LISTING_SECONDS)
        return ""
    return run.stdout.strip()


def devices(slot: int, slots: int, owned: list[str]) -> list[str]:
    """The GPUs of one of a worker's slots: an equal share, or one that slots share where there are fewer than slots."""
    if len(owned) < slots:
        return owned[slot % len(owned) :][:1] if owned else []
    each = len(owned) // slots
    return owned[slot * each : (slot + 1) * each]


def processes(slots: int, owned: list[str]) -> int:
    """The most processes of a run in one slot: its GPUs, or its share of the cores of a machine without."""
    return max(1, (len(owned) if owned else _cores()) // slots)


def _names_a_gpu(line: str) -> bool:
    return line.startswith("GPU ")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
