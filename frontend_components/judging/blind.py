"""Pictures and videos of a pair, such that nothing but what they show tells one side from the other.

An image is decoded and written again as PNG: only its pixels are left. In an MP4 the boxes that describe it are blanked
in place; what an encoder wrote into the stream itself stays. Then both sides are filled up, with a chunk or box that
players ignore, to one length.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from PIL import Image

PNG_END = 12  # bytes of the last chunk, and of any chunk beside its data
MP4_HEAD = 8  # bytes of a box's head
CONTAINERS = frozenset({b"moov", b"trak", b"mdia"})
DESCRIBING = frozenset({b"udta", b"meta", b"uuid", b"free", b"skip"})
TIMED = frozenset({b"mvhd", b"tkhd", b"mdhd"})

Box = tuple[int, int, int, bytes]  # start, start of the content, end, type


@lru_cache(maxsize=32)
def blind(kind: str, left: Path, right: Path) -> tuple[bytes, bytes]:
    """Both sides as image/png or video/mp4, of equal length. kind: image or video. OSError for a file that is gone."""
    if kind == "image":
        return even(png(left), png(right), PNG_END, fill_png)
    return even(mp4(left.read_bytes()), mp4(right.read_bytes()), MP4_HEAD, fill_mp4)


def even(left: bytes, right: bytes, least: int, fill: Callable[[bytes, int], bytes]) -> tuple[bytes, bytes]:
    """Fills both up to one length. least: bytes of an empty filling."""
    length = max(len(left), len(right)) + least
    return fill(left, length - len(left)), fill(right, length - len(right))


def png(path: Path) -> bytes:
    """The first frame of any image as PNG without metadata."""
    with Image.open(path) as opened:
        pixels = opened.convert("RGBA" if "A" in opened.getbands() else "RGB")
    bare = Image.frombytes(pixels.mode, pixels.size, pixels.tobytes())
    buffer = io.BytesIO()
    bare.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def fill_png(data: bytes, count: int) -> bytes:
    """`count` more bytes, at least 12, as a private ancillary chunk before the end."""
    body = b"fiLl" + bytes(count - PNG_END)
    chunk = (count - PNG_END).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return data[:-PNG_END] + chunk + data[-PNG_END:]


def mp4(data: bytes) -> bytes:
    """Descriptions become zeros in `free` boxes, times zero; nothing moves, so offsets of frames stay right."""
    blanked = bytearray(data)
    for start, content, end, kind in boxes(data, 0, len(data)):
        if kind in DESCRIBING:
            blanked[start + 4 : start + 8] = b"free"
            blanked[content:end] = bytes(end - content)
        elif kind in TIMED:
            times = 16 if data[content] == 1 else 8  # version 1 has 64-bit times
            blanked[content + 4 : content + 4 + times] = bytes(times)
    return bytes(blanked)


def fill_mp4(data: bytes, count: int) -> bytes:
    """`count` more bytes, at least 8, as a `free` box at the end."""
    return data + count.to_bytes(4, "big") + b"free" + bytes(count - MP4_HEAD)


def boxes(data: bytes, start: int, end: int) -> Iterator[Box]:
    """Boxes between two places, containers before what is in them (ISO/IEC 14496-12). ValueError for a broken file."""
    while start + MP4_HEAD <= end:
        size, kind, content = int.from_bytes(data[start : start + 4], "big"), data[start + 4 : start + 8], start + 8
        if size == 1:  # a 64-bit size follows
            size, content = int.from_bytes(data[start + 8 : start + 16], "big"), start + 16
        stop = end if size == 0 else start + size
        if not content <= stop <= end:
            raise ValueError(
                f"video: its box at byte {start} is {size} bytes long, which does not fit; encode it again"
            )
        yield start, content, stop, kind
        if kind in CONTAINERS:
            yield from boxes(data, content, stop)
        start = stop
