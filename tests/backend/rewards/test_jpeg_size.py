from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from backend.rewards.jpeg_size import JPEGSize


def test_it_is_the_length_of_pillows_file_in_units_of_1000_bytes(pictures: Tensor) -> None:
    levels = (pictures[:, 0] * 255).round().byte().permute(0, 2, 3, 1).numpy()
    sizes = []
    for one in levels:
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(one)).save(file, "JPEG", quality=95)
        sizes.append(len(file.getvalue()) / 1000)
    assert JPEGSize(prefer="large").score(pictures, ["x"] * 3).tolist() == sizes
    assert JPEGSize().score(pictures, ["x"] * 3).tolist() == [-size for size in sizes]


def test_noise_is_larger_than_a_plain_picture_and_a_low_quality_smaller() -> None:
    noise = torch.rand(1, 1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    plain = torch.full((1, 1, 3, 64, 64), 0.5)
    found = JPEGSize().score(torch.cat([noise, plain]), ["x", "x"])
    assert found[0] < found[1] < 0
    assert float(JPEGSize(quality=10).score(noise, ["x"])) > float(found[0])


def test_pitfall_49_levels_are_rounded_not_cut() -> None:
    almost = torch.full((1, 1, 3, 16, 16), 0.5) + 0.4 / 255
    exact = torch.full((1, 1, 3, 16, 16), 128 / 255)
    assert torch.equal(JPEGSize().score(almost, ["x"]), JPEGSize().score(exact, ["x"]))
