from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from frontend_components.judging import blind


def box(kind: bytes, content: bytes) -> bytes:
    return (len(content) + 8).to_bytes(4, "big") + kind + content


def header(kind: bytes, version: int) -> bytes:
    """A full box with times 7 and 9 and what follows them."""
    width = 8 if version else 4
    return box(kind, bytes([version, 0, 0, 0]) + (7).to_bytes(width, "big") + (9).to_bytes(width, "big") + b"rest")


def video(model: bytes, frames: bytes = b"frames") -> bytes:
    track = box(b"trak", header(b"tkhd", 0) + box(b"mdia", header(b"mdhd", 1)))
    described = box(b"udta", box(b"meta", b"made by " + model))
    return box(b"ftyp", b"isom") + box(b"moov", header(b"mvhd", 1) + track + described) + box(b"mdat", frames)


def noise(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (20, 30, 3), dtype=np.uint8))


def test_image_keeps_its_pixels_and_loses_everything_else(tmp_path: Path) -> None:
    told = PngImagePlugin.PngInfo()
    told.add_text("model", "run 7 step 260")
    noise(0).save(tmp_path / "a.png", pnginfo=told, dpi=(300, 300))
    noise(1).save(tmp_path / "b.webp", lossless=True, exif=b"Exif\0\0run 7")
    left, right = blind.blind("image", tmp_path / "a.png", tmp_path / "b.webp")
    for data, seed in ((left, 0), (right, 1)):
        image = Image.open(io.BytesIO(data))
        image.load()
        assert image.format == "PNG"
        assert image.info == {}
        assert image.tobytes() == noise(seed).tobytes()
        assert b"run 7" not in data


def test_both_sides_are_equally_long(tmp_path: Path) -> None:
    noise(0).save(tmp_path / "a.png")
    Image.new("RGB", (30, 20), "red").save(tmp_path / "b.png")
    for order in (("a.png", "b.png"), ("b.png", "a.png")):
        left, right = blind.blind("image", *(tmp_path / name for name in order))
        assert len(left) == len(right)
        assert Image.open(io.BytesIO(left)).getpixel((0, 0)) != Image.open(io.BytesIO(right)).getpixel((0, 0))


def test_same_picture_gives_the_same_bytes_whatever_its_file_says(tmp_path: Path) -> None:
    noise(0).save(tmp_path / "a.png", dpi=(72, 72))
    noise(0).save(tmp_path / "b.webp", lossless=True)
    left, right = blind.blind("image", tmp_path / "a.png", tmp_path / "b.webp")
    assert left == right


def test_video_keeps_its_frames_in_place_and_loses_names_and_times() -> None:
    data = video(b"run 7")
    bare = blind.mp4(data)
    assert len(bare) == len(data)
    assert bare.index(b"frames") == data.index(b"frames")
    assert b"run 7" not in bare
    assert b"udta" not in bare
    assert bare.count(b"rest") == 3
    assert (7).to_bytes(4, "big") not in bare
    assert bare == blind.mp4(video(b"run 8"))


def test_videos_are_filled_up_with_a_box_that_players_skip(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(video(b"a"))
    (tmp_path / "b.mp4").write_bytes(video(b"b", b"many more frames"))
    left, right = blind.blind("video", tmp_path / "a.mp4", tmp_path / "b.mp4")
    assert len(left) == len(right)
    for data in (left, right):
        top = [kind for start, _, end, kind in blind.boxes(data, 0, len(data)) if kind in (b"mdat", b"free")]
        assert top[-2:] == [b"mdat", b"free"]


def test_boxes_of_64_bit_sizes_and_to_the_end_of_the_file() -> None:
    long = (1).to_bytes(4, "big") + b"mdat" + (20).to_bytes(8, "big") + b"1234"
    last = bytes(4) + b"mdat" + b"to the end"
    found = list(blind.boxes(long + last, 0, len(long + last)))
    assert found == [(0, 16, 20, b"mdat"), (20, 28, 38, b"mdat")]


@pytest.mark.parametrize("size", [2, 7, 100])
def test_broken_video_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="box at byte 0"):
        blind.mp4(size.to_bytes(4, "big") + b"moov" + b"12345678")
