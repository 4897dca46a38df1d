import hashlib

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
