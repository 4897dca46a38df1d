"""Frames to files below RUN_DIR/media, named by the hash of their bytes and never rewritten."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from backend.events import Media, Sprite

FRAMES_PER_SECOND = 16  # Wan2.1's
KEY_FRAMES = 8  # frames between key frames: few, so that a player can seek exactly


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
    return _store(run_dir, buffer.getvalue(), f"image/{form}", image.width, image.height)


def _store(run_dir: Path, data: bytes, mime: str, width: int, height: int, poster: str | None = None) -> Media:
    sha256 = hashlib.sha256(data).hexdigest()
    path = Path("media") / sha256[:2] / f"{sha256}.{mime.partition('/')[2]}"
    if not (run_dir / path).exists():
        write_atomically(run_dir / path, data)
    return Media(sha256=sha256, mime=mime, width=width, height=height, bytes=len(data), path=str(path), poster=poster)


def _to_image(frame: Tensor) -> Image.Image:
    """[C, H, W] in 0..1 -> RGB."""
    levels = (quantise(frame) * 255).to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(np.ascontiguousarray(levels))


def save_image(run_dir: Path, frame: Tensor) -> Media:
    """One frame [C, H, W] in 0..1 as PNG."""
    return _save(run_dir, _to_image(frame), "png")


def save_sample(run_dir: Path, frames: Tensor) -> Media:
    """Frames [F, C, H, W] in 0..1: a PNG where there is one, else an MP4 with its first frame as poster.

    Raises ValueError where a video cannot be written: PyAV is not installed, or a side is odd.
    """
    if len(frames) == 1:
        return save_image(run_dir, frames[0])
    poster = save_image(run_dir, frames[0])
    data = _encode(frames, poster.width, poster.height)
    return _store(run_dir, data, "video/mp4", poster.width, poster.height, poster.sha256)


def _encode(frames: Tensor, width: int, height: int) -> bytes:
    """H.264 in yuv420p, which every browser plays, with its index first, so that playing starts before the end."""
    if width % 2 or height % 2:
        raise ValueError(f"video: {width} x {height} cannot be stored, as H.264 halves the colours; make both even")
    av = _pyav()
    with tempfile.TemporaryDirectory() as folder:  # the index is put first by opening the file once more
        path = Path(folder) / "video.mp4"
        _write(av, path, frames, width, height)
        return path.read_bytes()


def _write(av: Any, path: Path, frames: Tensor, width: int, height: int) -> None:
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_SECOND, options={"crf": "16", "g": str(KEY_FRAMES)})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(_to_image(frame))))
        container.mux(stream.encode())


def _pyav() -> Any:
    try:
        import av
    except ImportError as missing:
        raise ValueError(
            f"video: PyAV cannot be imported ({missing}); run .venv/bin/pip install -e '.[video]' to store videos"
        ) from missing
    return av


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
