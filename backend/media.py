"""Frames to files below RUN_DIR/media, named by the hash of their bytes and never rewritten."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from backend.events import Media, Sprite


def quantise(frames: Tensor) -> Tensor:
    """Frames in 0..1 at the 8-bit levels they are stored with, so that what is scored is what is seen."""
    return (frames * 255).round().clamp(0, 255) / 255


def write_atomically(path: Path, data: bytes) -> None:
    """The file appears whole or not at all, and survives a crash once it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def _save(run_dir: Path, image: Image.Image, form: str) -> Media:
    buffer = io.BytesIO()
    if form == "png":
        image.save(buffer, "PNG", optimize=True)
    else:
        image.save(buffer, "WEBP", lossless=True, method=3)
    data = buffer.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    path = Path("media") / sha256[:2] / f"{sha256}.{form}"
    if not (run_dir / path).exists():
        write_atomically(run_dir / path, data)
    return Media(
        sha256=sha256, mime=f"image/{form}", width=image.width, height=image.height, bytes=len(data), path=str(path)
    )


def _to_image(frame: Tensor) -> Image.Image:
    """[C, H, W] in 0..1 -> RGB."""
    levels = (quantise(frame) * 255).to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(np.ascontiguousarray(levels))


def save_image(run_dir: Path, frame: Tensor) -> Media:
    """One frame [C, H, W] in 0..1 as PNG."""
    return _save(run_dir, _to_image(frame), "png")


def save_sprite(run_dir: Path, frames: Tensor, nodes: list[tuple[int, int]], cell: int = 64) -> Sprite:
    """Thumbnails [N, C, H, W] of nodes as one WebP, at most 16 cells a row."""
    columns = min(16, len(nodes))
    rows = -(-len(nodes) // columns)
    sheet = Image.new("RGB", (columns * cell, rows * cell))
    for number, frame in enumerate(frames):
        thumbnail = _to_image(frame)
        if thumbnail.size != (cell, cell):
            thumbnail = thumbnail.resize((cell, cell), Image.Resampling.LANCZOS)
        sheet.paste(thumbnail, (number % columns * cell, number // columns * cell))
    return Sprite(media=_save(run_dir, sheet, "webp"), cell=cell, columns=columns, nodes=nodes)
