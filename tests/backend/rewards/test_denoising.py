"""Features of the bundled base: they know the prompt, and no picture depends on those beside it."""

import numpy as np
import pytest
import torch

from backend.rewards.denoising import LEVELS, Denoising
from backend.shapes import render
from backend.shapes.prompts import parse

L = len(LEVELS)


@pytest.fixture(scope="module")
def features():
    return Denoising("shapes", torch.device("cpu"))


def drawn(*texts):
    rng = np.random.default_rng(0)
    stack = np.stack([render.draw(render.place(parse(text), rng)) for text in texts])
    return torch.from_numpy(stack).permute(0, 3, 1, 2)[:, None].float() / 255


def test_a_picture_is_denoised_better_under_its_own_prompt(features):
    texts = ["a red circle", "a blue square", "a green star", "a yellow triangle"]
    pictures = drawn(*texts)
    own, other = features(pictures, texts), features(pictures, texts[1:] + texts[:1])
    assert own.shape == (4, 2 * L)
    assert (own[:, :L].mean(1) < other[:, :L].mean(1)).all()
    # without a prompt nothing differs, so both halves differ by the same
    torch.testing.assert_close(own[:, :L] - own[:, L:], other[:, :L] - other[:, L:])


def test_a_picture_has_the_same_features_alone(features):
    texts = ["a red circle", "a blue square"]
    together = features(drawn(*texts), texts)
    torch.testing.assert_close(features(drawn(*texts)[1:], texts[1:]), together[1:], rtol=1e-4, atol=1e-5)


def test_gradients_reach_pictures_that_ask_for_them(features):
    pictures = drawn("a red circle").requires_grad_()
    features(pictures, ["a red circle"]).sum().backward()
    assert pictures.grad.abs().max() > 0
    assert not features(pictures.detach(), ["a red circle"]).requires_grad
    assert all(value.grad is None for value in features.policy.module.parameters())
