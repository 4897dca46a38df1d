"""The device that a process computes on."""

from __future__ import annotations

import torch


def pick() -> torch.device:
    """The first GPU that is visible, else the CPU."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
