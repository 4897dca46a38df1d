from __future__ import annotations

import pytest
import torch
from torch import Tensor

from backend.rewards.image_statistics import Brightness, EdgeDensity, Saturation


def plain(red: float, green: float, blue: float) -> Tensor:
    """[1, 1, 3, 8, 8] of one colour."""
    return torch.tensor([red, green, blue], dtype=torch.float32).view(1, 1, 3, 1, 1).expand(1, 1, 3, 8, 8).clone()


def test_brightness_of_white_black_and_pure_colours() -> None:
    colours = torch.cat([plain(1, 1, 1), plain(0, 0, 0), plain(1, 0, 0), plain(0, 1, 0), plain(0, 0, 1)])
    assert Brightness().score(colours, ["x"] * 5).tolist() == pytest.approx([1, 0, 0.299, 0.587, 0.114], abs=1e-6)


def test_saturation_is_that_of_hsv() -> None:
    colours = torch.cat([plain(1, 0, 0), plain(0.5, 0.5, 0.5), plain(0.8, 0.6, 0.4), plain(0, 0, 0)])
    assert Saturation().score(colours, ["x"] * 4).tolist() == pytest.approx([1, 0, 0.5, 0], abs=1e-6)


def test_one_straight_edge_covers_two_columns() -> None:
    half = plain(0, 0, 0)
    half[..., 4:] = 1.0
    assert EdgeDensity().score(half, ["x"]).tolist() == [2 / 8]
    assert EdgeDensity().score(half.transpose(-1, -2), ["x"]).tolist() == [2 / 8]
    assert EdgeDensity().score(plain(0.3, 0.3, 0.3), ["x"]).tolist() == [0.0]


def test_the_threshold_is_a_share_of_the_whole_step() -> None:
    faint = plain(0.5, 0.5, 0.5)
    faint[..., 4:] += 0.2
    # Sobel over 4 gives the whole step on both sides of it: a slope of 0.2
    assert EdgeDensity(threshold=0.19).score(faint, ["x"]).tolist() == [2 / 8]
    assert EdgeDensity(threshold=0.21).score(faint, ["x"]).tolist() == [0.0]


def test_brightness_and_saturation_have_gradients() -> None:
    for reward in (Brightness(), Saturation()):
        frames = plain(0.8, 0.6, 0.4).requires_grad_()
        reward.score(frames, ["x"]).sum().backward()
        assert frames.grad is not None
        assert bool(frames.grad.abs().sum() > 0)
