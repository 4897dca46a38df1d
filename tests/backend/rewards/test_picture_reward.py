from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from backend.rewards.picture_reward import PictureReward, evenly


class Red(PictureReward):
    """The mean of the red channel; NaN in a picture without any; 1 more where the prompt asks for it."""

    name: Literal["red"] = "red"

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        red = pictures[:, 0].mean((1, 2))
        asked = torch.tensor([prompt == "red" for prompt in prompts])
        return torch.where(red > 0, red + asked, torch.nan)


def video(*red: float) -> Tensor:
    """[1, F, 3, 2, 2]."""
    return torch.tensor(red).view(1, -1, 1, 1, 1).expand(1, -1, 3, 2, 2)


def test_frames_are_evenly_spaced_with_both_ends() -> None:
    frames = torch.arange(81).view(1, 81)
    assert evenly(frames, 5).tolist() == [[0, 20, 40, 60, 80]]
    assert evenly(frames, 1).tolist() == [[40]]
    assert evenly(frames[:, :3], 4).tolist() == [[0, 1, 2]]


def test_a_video_is_the_mean_of_its_frames_and_an_image_is_itself() -> None:
    reward = Red(frames=3)
    both = torch.cat([video(0.25, 0.9, 0.5, 0.9, 0.75), video(1.0, 0.9, 1.0, 0.9, 1.0)])
    assert reward.score(both, ["blue", "red"]).tolist() == [0.5, 2.0]
    assert reward.score(video(0.5), ["red"]).tolist() == [1.5]


def test_a_video_with_a_frame_that_cannot_be_judged_is_not_judged() -> None:
    assert Red(frames=2).score(video(0.5, 0.5, 0.0), ["x"]).isnan().tolist() == [True]
