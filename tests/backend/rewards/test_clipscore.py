"""CLIPScore of a tiny CLIP, against a forward pass that is written out from the weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.rewards import preprocessing
from backend.rewards.clipscore import CLIPScore
from tests.backend.rewards import tiny_clip

PROMPTS = ["a red cat", "Two Dogs", "a red cat"]


def reward(folder: Path, **more: object) -> CLIPScore:
    return CLIPScore.model_validate({"checkpoint": str(folder), "revision": None} | more)


def expected(weights: dict[str, Tensor], pictures: Tensor) -> list[float]:
    seen = preprocessing.normalise(preprocessing.crop(pictures[:, 0], tiny_clip.SIZE))
    found = tiny_clip.picture_embedding(weights, seen, "quick_gelu")
    texts = torch.stack([tiny_clip.text_embedding(weights, prompt, "quick_gelu") for prompt in PROMPTS])
    return (weights["logit_scale"].exp() * (found * texts).sum(1)).tolist()


def test_it_is_the_scaled_cosine(openai_like: tuple[Path, dict[str, Tensor]], pictures: Tensor) -> None:
    folder, weights = openai_like
    found = reward(folder).score(pictures, PROMPTS)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(expected(weights, pictures), rel=1e-4, abs=1e-4)
    assert len({round(one, 3) for one in found.tolist()}) == 3


def test_batches_change_nothing(openai_like: tuple[Path, dict[str, Tensor]], pictures: Tensor) -> None:
    whole = reward(openai_like[0]).score(pictures, PROMPTS)
    torch.testing.assert_close(reward(openai_like[0], batch=2).score(pictures, PROMPTS), whole, rtol=1e-5, atol=1e-5)


def test_texts_that_are_too_long_are_cut(openai_like: tuple[Path, dict[str, Tensor]], pictures: Tensor) -> None:
    long, longer = ["abcdefghij"] * 3, ["abcdefghijklmn"] * 3  # 10 letters and two marks are all that fits
    found = reward(openai_like[0]).score(pictures, longer)
    assert found.isfinite().all()
    assert not torch.equal(found, reward(openai_like[0]).score(pictures, long))  # j is no longer the last of its word


def test_gradients_reach_the_frames_and_climb(openai_like: tuple[Path, dict[str, Tensor]], pictures: Tensor) -> None:
    judge, frames = reward(openai_like[0]), pictures.clone().requires_grad_()
    judge.score(frames, PROMPTS).sum().backward()
    assert frames.grad is not None
    step = 0.02 * frames.grad / frames.grad.abs().max()
    better = judge.score((pictures + step).clamp(0, 1), PROMPTS)
    assert (better > judge.score(pictures, PROMPTS)).all()


def test_a_checkpoint_that_is_not_there_is_explained() -> None:
    with pytest.raises(ValueError, match=r"rewards\.clipscore\.checkpoint: '/nowhere' cannot be loaded"):
        reward(Path("/nowhere")).score(torch.zeros(1, 1, 3, 4, 4), ["x"])
