import hashlib
from pathlib import Path

import av
import pytest
import torch
from PIL import Image

from backend import media


def test_stored_pixels_are_the_quantised_frame(tmp_path):
    frame = torch.rand(3, 8, 6, generator=torch.Generator().manual_seed(0))
    saved = media.save_image(tmp_path, frame)
    pixels = torch.tensor(list(Image.open(tmp_path / saved.path).get_flattened_data())).view(8, 6, 3).permute(2, 0, 1)
    assert torch.equal(pixels / 255, media.quantise(frame))
    assert (saved.width, saved.height, saved.mime) == (6, 8, "image/png")


def test_name_is_the_hash_of_the_bytes_and_equal_frames_share_a_file(tmp_path):
    frame = torch.full((3, 4, 4), 0.5)
    first, second = media.save_image(tmp_path, frame), media.save_image(tmp_path, frame)
    assert first == second
    assert hashlib.sha256((tmp_path / first.path).read_bytes()).hexdigest() == first.sha256
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / first.path]


def test_quantise_rounds_and_clamps():
    # 0.5 * 255 = 127.5 rounds to even 128
    levels = media.quantise(torch.tensor([-0.1, 0.0, 0.5, 1.0, 1.2])) * 255
    assert levels.tolist() == [0.0, 0.0, 128.0, 255.0, 255.0]


def test_sprite_puts_thumbnails_row_by_row(tmp_path):
    shades = torch.linspace(0, 1, 18)
    frames = shades[:, None, None, None].expand(18, 3, 4, 4)
    sprite = media.save_sprite(tmp_path, frames, [(0, i) for i in range(18)], cell=4)
    assert (sprite.columns, sprite.media.width, sprite.media.height) == (16, 64, 8)
    sheet = Image.open(tmp_path / sprite.media.path).convert("RGB")
    # node 17 is the second of the second row
    assert sheet.getpixel((4 + 1, 4 + 1))[0] == 255
    assert sheet.getpixel((5 * 4 + 1, 1))[0] == round(5 / 17 * 255)


def test_video_is_an_mp4_that_browsers_play_with_its_first_frame_as_poster(tmp_path):
    # a white square moves right by 4 pixels a frame
    frames = torch.zeros(9, 3, 48, 64)
    for number in range(9):
        frames[number, :, 16:32, 4 * number : 4 * number + 16] = 1
    saved = media.save_sample(tmp_path, frames)
    assert (saved.mime, saved.width, saved.height, Path(saved.path).suffix) == ("video/mp4", 64, 48, ".mp4")
    data = (tmp_path / saved.path).read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    with av.open(str(tmp_path / saved.path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt, stream.average_rate) == ("h264", "yuv420p", 16)
        shown = [torch.from_numpy(frame.to_ndarray(format="rgb24")) for frame in container.decode(stream)]
    assert len(shown) == 9
    for number, picture in enumerate(shown):
        assert (picture.permute(2, 0, 1) / 255 - frames[number]).abs().mean() < 0.03
    assert saved.poster == media.save_image(tmp_path, frames[0]).sha256


def test_one_frame_is_a_picture(tmp_path):
    frame = torch.rand(1, 3, 4, 4)
    assert media.save_sample(tmp_path, frame) == media.save_image(tmp_path, frame[0])


def test_video_of_odd_size_is_refused(tmp_path):
    with pytest.raises(ValueError, match="5 x 4 cannot be stored"):
        media.save_sample(tmp_path, torch.rand(2, 3, 4, 5))
