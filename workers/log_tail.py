"""The end of a trainer's log."""

from __future__ import annotations

from pathlib import Path

TAIL_BYTES = 16 << 10


def log_tail(path: Path, num_bytes: int = TAIL_BYTES) -> str:
    """The last lines within num_bytes; of a progress bar that redraws its line, only what it showed last."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - num_bytes))
        text = file.read().decode(errors="replace")
    if size > num_bytes:
        text = text.partition("\n")[2] or text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
