"""Frames, sizes and patches, against the rules of the release and against transformers' own processor of pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from backend.media import quantise
from backend.rewards import preprocessing, qwen_video


def drawn(frames: int, height: int, width: int) -> torch.Tensor:
    seed = torch.Generator().manual_seed(height)
    return torch.randint(0, 256, (1, frames, 3, height, width), generator=seed).float() / 255


@pytest.mark.parametrize(
    ("frames", "played", "seen", "places"),
    [
        (17, 24.0, 2.0, [0, 5, 11, 16]),  # 17 / 24 x 2 = 1.4, raised to 4; 16 / 3 = 5.3 apart
        (40, 8.0, 2.0, [0, 4, 9, 13, 17, 22, 26, 30, 35, 39]),  # 40 / 8 x 2 = 10
        (5, 16.0, 32.0, [0, 1, 3, 4]),  # 10 wanted, 4 the largest even number of 5
        (2, 16.0, 2.0, [0, 1]),
    ],
)
def test_frames_are_even_in_number_and_evenly_spaced(
    frames: int, played: float, seen: float, places: list[int]
) -> None:
    video = torch.arange(frames)[None]
    assert qwen_video.sampled(video, played, seen).tolist() == [places]


def test_a_long_video_is_seen_in_768_frames() -> None:
    assert qwen_video.sampled(torch.arange(2000)[None], 1.0, 2.0).shape == (1, 768)


def test_a_frame_is_shrunk_below_the_most_pixels() -> None:
    # 480 x 480 = 230400, over 200704: by sqrt(230400 / 200704) = 1.0714 to 448 x 448 = 16 x 28
    assert qwen_video.size(480, 480, 200704) == (448, 448)


@pytest.mark.parametrize("height", [28, 100, 240, 300, 480, 720, 1080])
@pytest.mark.parametrize("width", [44, 320, 416, 832, 1280, 1920])
def test_sizes_are_those_of_transformers(height: int, width: int) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    found = qwen_video.size(height, width, 200704)
    assert found == smart_resize(height, width, 28, qwen_video.MIN_PIXELS, 200704)
    assert all(side % 28 == 0 for side in found)


def processed(frame: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """A frame [3, h, w] through transformers' processor of pictures, which takes it for two frames."""
    from transformers import Qwen2VLImageProcessorPil

    limits = {"shortest_edge": qwen_video.MIN_PIXELS, "longest_edge": 200704}
    image = (frame.permute(1, 2, 0) * 255).round().numpy().astype(np.uint8)
    made = Qwen2VLImageProcessorPil(size=limits)(images=image, return_tensors="pt")
    return made["pixel_values"], made["image_grid_thw"][0].tolist()


@pytest.mark.parametrize(("height", "width"), [(308, 336), (336, 308)])
def test_patches_of_a_still_video_are_those_of_the_picture(height: int, width: int) -> None:
    still = drawn(1, height, width).expand(1, 2, -1, -1, -1)
    found, grids = qwen_video.patches(preprocessing.normalise(still), 14, 2, 2)
    expected, grid = processed(still[0, 0])
    assert grids.tolist() == [grid]
    assert found.shape == (height // 14 * width // 14, 3 * 2 * 14 * 14)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(100, 120), (500, 600)])
def test_resized_patches_differ_from_pillows_by_its_rounding_alone(height: int, width: int) -> None:
    """Pillow rounds after the columns and after the rows, torchvision once: at most two of 255 levels."""
    waves = [torch.sin(torch.arange(side) / 9) for side in (height, width)]
    picture = 0.5 + 0.4 * waves[0][:, None] * waves[1] * torch.tensor([1.0, -1.0, 0.5]).view(3, 1, 1)
    still = quantise(picture).expand(1, 2, -1, -1, -1)
    seen = qwen_video.resized(still, 200704)
    found, grids = qwen_video.patches(preprocessing.normalise(seen), 14, 2, 2)
    expected, grid = processed(still[0, 0])
    assert grids.tolist() == [grid]
    levels = (found - expected).abs() * min(preprocessing.STD) * 255
    assert float(levels.max()) < 2.1
    assert float(levels.mean()) < 0.3


def test_two_frames_stand_in_one_patch_and_videos_one_after_another() -> None:
    frames = torch.cat([drawn(4, 28, 28), drawn(4, 28, 28) / 2])
    found, grids = qwen_video.patches(frames, 14, 2, 2)
    assert grids.tolist() == [[2, 2, 2], [2, 2, 2]]
    split = found.view(2, 2, 2, 2, 3, 2, 14, 14)  # N, time, top or bottom, left or right, colour, frame, y, x
    assert torch.equal(split[1, 1, 1, 0, :, 0], frames[1, 2, :, 14:, :14])
    assert torch.equal(split[0, 0, 0, 1, :, 1], frames[0, 1, :, :14, 14:])
