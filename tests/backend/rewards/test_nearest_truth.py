"""The reward with gradients: what it ranks first, its scale, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from backend.rewards.nearest_truth import NearestTruth, background, truths
from backend.shapes import render
from backend.shapes.prompts import TASKS, content_text, contents, parse


def pictured(text: str, seed: int = 0) -> Tensor:
    """A true picture [1, 1, 3, 64, 64] that the reward has not drawn itself."""
    drawn = render.render(parse(text), np.random.default_rng(seed))
    return torch.from_numpy(drawn.copy()).permute(2, 0, 1)[None, None] / 255


def enlarged(small: Tensor) -> Tensor:
    """uint8 [3, 32, 32] -> [1, 1, 3, 64, 64], which averages to it."""
    return small.double().repeat_interleave(2, 1).repeat_interleave(2, 2)[None, None] / 255


def score(frames: Tensor, text: str, count: int = 128) -> float:
    return float(NearestTruth(truths=count).score(frames, [text]))


@pytest.mark.parametrize("task", TASKS)
def test_a_picture_among_the_truths_scores_1_and_the_empty_ground_0(task: str) -> None:
    text = content_text(contents(task)[3])
    known = enlarged(truths(parse(text), 8)[5])
    assert score(known, text, 8) == pytest.approx(1.0, abs=1e-12)
    ground = background(known).expand(1, 1, 3, 64, 64)
    assert score(ground, text) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a red circle", "a blue circle"),
        ("a red circle", "three crosses"),
        ("a red square left of a blue star", "a green square left of a yellow star"),
        ("four rings", "a ring"),
    ],
)
def test_true_pictures_score_above_wrong_ones(text: str, wrong: str) -> None:
    def mean(shown: str) -> float:
        return float(np.mean([score(pictured(shown, seed), text) for seed in range(12)]))

    assert mean(text) > mean(wrong) + 0.1


def test_the_distance_is_relative_to_what_the_truths_add_to_the_ground() -> None:
    text = "a white ring"
    true = truths(parse(text), 1)[0]
    ground = background(torch.zeros(1, dtype=torch.float64))
    halfway = (enlarged(true) + ground) / 2  # half the difference everywhere: a quarter of the squared distance
    assert score(halfway, text, 1) == pytest.approx(0.75, abs=1e-12)
    assert score(ground.expand(1, 1, 3, 64, 64), text, 1) == pytest.approx(0.0, abs=1e-12)


def test_rewards_stand_in_the_order_of_the_prompts_and_do_not_depend_on_each_other() -> None:
    texts = ["a red circle", "two stars", "a red circle at night", "a blue ring"]
    frames = torch.cat([pictured(text, seed) for seed, text in enumerate(texts)])
    together = NearestTruth(truths=16).score(frames, texts)
    apart = [score(frame[None], text, 16) for frame, text in zip(frames, texts, strict=True)]
    assert together.dtype == torch.float64
    assert together.tolist() == pytest.approx(apart, abs=1e-6)


def test_truths_are_the_same_for_every_wording_and_a_prefix_of_more() -> None:
    assert parse("photo of a red circle on slate") == parse("a red circle")
    few, many = truths(parse("a red circle"), 4), truths(parse("a red circle"), 9)
    assert torch.equal(few, many[:4])
    assert len(many.flatten(1).unique(dim=0)) == 9


def test_the_gradient_is_that_of_finite_differences() -> None:
    frames = pictured("two stars", 3).double().requires_grad_()
    reward = NearestTruth(truths=8)
    reward.score(frames, ["two stars"]).sum().backward()
    assert frames.grad is not None
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(frames.shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        ahead, behind = (reward.score(frames + h * direction, ["two stars"]) for h in (1e-6, -1e-6))
    slope = float(ahead - behind) / 2e-6
    assert float((frames.grad * direction).sum()) == pytest.approx(slope, rel=1e-6)


def test_the_gradient_is_finite_and_zero_at_a_truth() -> None:
    frames = enlarged(truths(parse("a red circle"), 8)[2]).requires_grad_()
    NearestTruth(truths=8).score(frames, ["a red circle"]).sum().backward()
    assert frames.grad is not None
    assert torch.equal(frames.grad, torch.zeros_like(frames))


def test_refusals_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="asks for no shape of this world"):
        NearestTruth().score(torch.zeros(1, 1, 3, 64, 64), ["a cat"])
    with pytest.raises(ValueError, match=r"rewards.nearest_truth: needs one picture of 3 x 64 x 64 a prompt, got"):
        NearestTruth().score(torch.zeros(1, 1, 3, 32, 32), ["a red circle"])
