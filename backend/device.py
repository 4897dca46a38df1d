"""The device that a process computes on."""

from __future__ import annotations

import resource
import sys

import torch


def pick() -> torch.device:
    """The GPU of this process, the first that is visible unless `backend.ranks` chose another; else the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def peak_memory(device: torch.device) -> int:
    """Most bytes that this process has held so far: on a GPU those of tensors, on the CPU all of its own."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
