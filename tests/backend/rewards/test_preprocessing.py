"""Preprocessing against Pillow, which the reward models were trained with, and against stored values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from backend.rewards import preprocessing


def levels(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array).permute(2, 0, 1)[None].float() / 255


def pillow(array: np.ndarray, height: int, width: int) -> Tensor:
    return tensor(np.array(Image.fromarray(array).resize((width, height), Image.Resampling.BICUBIC)))


@pytest.mark.parametrize(("height", "width"), [(64, 64), (24, 40), (7, 9)])
@pytest.mark.parametrize("size", [16, 48])
def test_resizing_is_pillows_within_a_level(height: int, width: int, size: int) -> None:
    picture = levels(height, width)
    found = preprocessing.resize(tensor(picture), size, size + 3)
    apart = (found - pillow(picture, size, size + 3)).abs() * 255
    assert float(apart.max()) <= 1.01
    assert float((apart > 0.5).double().mean()) < 0.05


def test_resizing_gives_the_stored_levels() -> None:
    # Pillow 12.3, bicubic, of the grey 4 x 4 picture 16 k to 2 x 2
    picture = (16 * np.arange(16, dtype=np.uint8)).reshape(4, 4)
    grey = torch.from_numpy(picture)[None, None].float() / 255
    found = preprocessing.resize(grey, 2, 2)[0, 0] * 255
    assert found.round().int().tolist() == [[47, 77], [163, 193]]


def test_the_crop_is_the_centre_after_the_shorter_side_has_been_fitted() -> None:
    picture = levels(20, 50)
    wide = pillow(picture, 16, 40)  # 16 x 50 / 20
    torch.testing.assert_close(preprocessing.crop(tensor(picture), 16), wide[..., 12:28], rtol=0, atol=1.01 / 255)


def test_pitfall_45_padding_keeps_the_whole_picture_between_black_bars() -> None:
    picture = levels(20, 50)
    found = preprocessing.pad(tensor(picture), 16)
    small = pillow(picture, 6, 16)  # 16 x 20 / 50 = 6.4
    torch.testing.assert_close(found[..., 5:11, :], small, rtol=0, atol=1.01 / 255)
    assert not found[..., :5, :].any()
    assert not found[..., 11:, :].any()


def test_square_pictures_are_cropped_and_padded_alike() -> None:
    picture = tensor(levels(30, 30))
    assert torch.equal(preprocessing.crop(picture, 16), preprocessing.pad(picture, 16))


def test_normalising_by_hand() -> None:
    found = preprocessing.normalise(torch.full((1, 3, 1, 1), 0.5)).flatten()
    expected = [(0.5 - 0.48145466) / 0.26862954, (0.5 - 0.4578275) / 0.26130258, (0.5 - 0.40821073) / 0.27577711]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


def test_gradients_pass_as_if_there_were_no_rounding() -> None:
    picture = tensor(levels(8, 8)).mul(0.5).add(0.25).requires_grad_()
    preprocessing.resize(picture, 4, 4).sum().backward()
    assert picture.grad is not None
    # bicubic weights of each colour sum to 1 in every one of the 16 pixels
    assert float(picture.grad.sum()) == pytest.approx(3 * 16, rel=1e-5)


def test_transformers_prepares_a_picture_in_the_same_way() -> None:
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    picture = levels(40, 60)
    processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    expected = processor(images=Image.fromarray(picture), return_tensors="pt")["pixel_values"]
    found = preprocessing.normalise(preprocessing.crop(tensor(picture), 32))
    torch.testing.assert_close(found, expected.float(), rtol=0, atol=1.01 / 255 / min(preprocessing.STD))
