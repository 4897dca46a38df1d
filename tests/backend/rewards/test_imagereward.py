"""ImageReward of a tiny BLIP, against a forward pass that is written out from the release's names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.rewards import blip_names, preprocessing
from backend.rewards.imagereward import MEAN, STD, ImageReward
from tests.backend.rewards import tiny_blip

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "cat", "two", "dogs"]


@pytest.fixture
def release(tmp_path: Path) -> tuple[ImageReward, dict[str, Tensor]]:
    from transformers import BertTokenizer

    vocab = {word: number for number, word in enumerate(WORDS)}
    BertTokenizer(vocab=vocab, do_lower_case=True).save_pretrained(tmp_path / "words")
    stored = tiny_blip.weights()
    torch.save(stored, tmp_path / "reward.pt")
    reward = ImageReward(
        weights=str(tmp_path / "reward.pt"),
        weights_revision=None,
        tokenizer=str(tmp_path / "words"),
        tokenizer_revision=None,
    )
    return reward, stored


def expected(stored: dict[str, Tensor], pictures: Tensor, words: str) -> Tensor:
    tokens = [2, *(WORDS.index(word) for word in words.split()), 3]
    seen = preprocessing.normalise(preprocessing.crop(pictures[:, 0], tiny_blip.SIZE))
    return (tiny_blip.predicted(stored, seen, tokens) - MEAN) / STD


def test_it_is_the_standardised_prediction(release: tuple[ImageReward, dict[str, Tensor]], pictures: Tensor) -> None:
    reward, stored = release
    found = reward.score(pictures, ["A red cat"] * 3)
    assert found.tolist() == pytest.approx(expected(stored, pictures, "a red cat").tolist(), rel=1e-4, abs=1e-4)
    other = reward.score(pictures, ["two dogs"] * 3)
    assert other.tolist() == pytest.approx(expected(stored, pictures, "two dogs").tolist(), rel=1e-4, abs=1e-4)
    assert not torch.allclose(found, other, atol=1e-3)


def test_each_picture_meets_its_own_prompt_whatever_the_batch(
    release: tuple[ImageReward, dict[str, Tensor]], pictures: Tensor
) -> None:
    reward, _ = release
    prompts = ["a red cat", "two dogs", "cat"]
    whole = reward.score(pictures, prompts)
    alone = [float(reward.score(pictures[i : i + 1], prompts[i : i + 1])) for i in range(3)]
    assert whole.tolist() == pytest.approx(alone, rel=1e-4, abs=1e-4)
    small = reward.model_copy(update={"batch": 2}).score(pictures, prompts)
    assert small.tolist() == pytest.approx(alone, rel=1e-4, abs=1e-4)


def test_gradients_reach_the_frames(release: tuple[ImageReward, dict[str, Tensor]], pictures: Tensor) -> None:
    frames = pictures.clone().requires_grad_()
    release[0].score(frames, ["a red cat"] * 3).sum().backward()
    assert frames.grad is not None
    assert bool((frames.grad.flatten(1).abs().sum(1) > 0).all())


def test_other_weights_are_refused(release: tuple[ImageReward, dict[str, Tensor]], pictures: Tensor) -> None:
    reward, stored = release
    torch.save(stored | {"extra.weight": torch.zeros(1)}, reward.weights)
    with pytest.raises(ValueError, match=r"rewards\.imagereward\.weights.*extra"):
        reward.score(pictures, ["a"] * 3)


def test_names_are_parted_by_model() -> None:
    parts = blip_names.converted(tiny_blip.weights())
    assert "encoder.layers.1.self_attn.projection.bias" in parts.vision
    assert "encoder.layer.0.crossattention.self.key.weight" in parts.text
    assert "embeddings.position_ids" not in parts.text
    assert set(parts.predictor) == {f"{n}.{kind}" for n in (0, 2, 4, 6, 7) for kind in ("weight", "bias")}
