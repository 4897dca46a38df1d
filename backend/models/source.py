"""Where a base's files are: a pipeline folder, or what the hub's cache holds of an id. Nothing here downloads."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

END = 2**20  # bytes at each end of a large file that tell its content


def is_hub_id(base: str) -> bool:
    """Whether a base that is no folder reads as owner/name."""
    owner, slash, name = base.partition("/")
    return bool(owner.strip(".") and slash and name) and "/" not in name and not base.startswith(("~", "."))


def local_file(base: str, name: str) -> Path | None:
    """A file of the base, such as vae/config.json, if it is on this machine."""
    if Path(base).is_dir():
        file = Path(base) / name
        return file if file.is_file() else None
    if not is_hub_id(base):
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(base, name)
    return Path(found) if isinstance(found, str) else None


def read_config(base: str, name: str) -> dict[str, Any] | None:
    """The JSON of one of its files; None when it is not on this machine."""
    file = local_file(base, name)
    return None if file is None else dict(json.loads(file.read_text(encoding="utf-8")))


def time_shift(scheduler: dict[str, Any], tokens: int) -> float:
    """s of the grid s sigma / (1 + (s - 1) sigma) that a scheduler's config asks for.

    A dynamic shift is s = e^mu (or mu, where it is linear), with mu linear in the number of tokens of the latent
    (FLUX: 0.5 at 256 to 1.15 at 4096). A static one is `flow_shift` in UniPC's config, `shift` in the others.
    """
    if not scheduler.get("use_dynamic_shifting", False):
        return float(scheduler.get("flow_shift", scheduler.get("shift", 1.0)))
    few, many = scheduler.get("base_image_seq_len", 256), scheduler.get("max_image_seq_len", 4096)
    low, high = scheduler.get("base_shift", 0.5), scheduler.get("max_shift", 1.15)
    mu = low + (high - low) * (tokens - few) / (many - few)
    return float(mu) if scheduler.get("time_shift_type") == "linear" else math.exp(mu)


def text_identity(base: str) -> str:
    """What decides how the base encodes a prompt: the id and commit of the hub, or a folder's own files."""
    return identity(base, ("text_encoder", "tokenizer"))


def identity(base: str, parts: tuple[str, ...]) -> str:
    """What decides what components do: the id and commit of the hub, or the files of folders that begin as `parts` do.

    Of files above 2 MiB the size and both ends are read.
    """
    if not Path(base).is_dir():
        index = local_file(base, "model_index.json")
        return f"{base}@{index.parent.name if index else 'unknown'}"
    told = hashlib.sha256()
    for file in sorted(Path(base).glob("*/**/*")):
        part = file.relative_to(base)
        if file.is_file() and part.parts[0].startswith(parts):
            told.update(f"{part} {file.stat().st_size} ".encode() + _ends(file))
    return told.hexdigest()


def _ends(file: Path) -> bytes:
    with file.open("rb") as opened:
        head = opened.read(END)
        opened.seek(max(opened.tell(), file.stat().st_size - END))
        return hashlib.sha256(head + opened.read(END)).digest()
