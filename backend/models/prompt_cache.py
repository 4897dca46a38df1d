"""Encoded prompts on disk, each named by the hash of all that decides it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor


def folder() -> Path:
    """$ESPALIER_CACHE/prompts, or prompts in the user's own cache."""
    home = os.environ.get("ESPALIER_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "espalier"
    return Path(home).expanduser() / "prompts"


class PromptCache:
    """One safetensors file a text. facts: everything besides the text that decides what is stored."""

    def __init__(self, at: Path, facts: Sequence[object]) -> None:
        self._at, self._facts = at, json.dumps(list(facts))

    def path(self, text: str) -> Path:
        name = hashlib.sha256(json.dumps([self._facts, text]).encode()).hexdigest()
        return self._at / name[:2] / f"{name}.safetensors"

    def get(self, text: str) -> tuple[Tensor, ...] | None:
        """The tensors that were put for the text, on the CPU."""
        from safetensors.torch import load_file

        path = self.path(text)
        if not path.is_file():
            return None
        stored = load_file(path)
        return tuple(stored[str(place)] for place in range(len(stored)))

    def put(self, text: str, tensors: Sequence[Tensor]) -> None:
        """The file appears whole or not at all, so that several runs can share the folder."""
        from safetensors.torch import save

        path = self.path(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        with os.fdopen(handle, "wb") as file:
            file.write(save({str(i): one.detach().cpu().contiguous() for i, one in enumerate(tensors)}))
        os.replace(temporary, path)


def stack(rows: Sequence[Sequence[Tensor]], device: torch.device) -> tuple[Tensor, ...]:
    """Per-text tensors [1, ...] -> one tensor [N, ...] a place."""
    return tuple(torch.cat([one.to(device) for one in column]) for column in zip(*rows, strict=True))
