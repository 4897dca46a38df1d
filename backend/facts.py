"""Where and with what a run was made, for the record."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import torch


def environment(device: torch.device) -> dict[str, str]:
    """Versions, device, threads, git revision and the command line; no environment variables, which may be secrets."""
    packages = ("torch", "diffusers", "transformers", "peft", "accelerate")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return {
        "espalier": version("espalier") if _installed("espalier") else "source tree",
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
        "device": f"{device} ({name})",
        "threads": str(torch.get_num_threads()),
        "cores": str(os.cpu_count()),
        "host": platform.node(),
        "git": _git_revision(),
        "command": shlex.join(["espalier", *sys.argv[1:]]),
    }


def _processor() -> str:
    """Its model, where the system tells, since seconds of two models do not compare."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _git_revision() -> str:
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return described.stdout.strip()
