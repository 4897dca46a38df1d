from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.rewards import preprocessing
from backend.rewards.pickscore import PickScore
from tests.backend.rewards import tiny_clip

PROMPTS = ["a b", "c d", "e f"]


def test_it_is_the_scaled_cosine_of_its_own_weights_and_another_repositorys_tokenizer(
    laion_like: tuple[Path, dict[str, Tensor]], openai_like: tuple[Path, dict[str, Tensor]], pictures: Tensor
) -> None:
    folder, weights = laion_like
    reward = PickScore(checkpoint=str(folder), revision=None, tokenizer=str(openai_like[0]), tokenizer_revision=None)
    seen = preprocessing.normalise(preprocessing.crop(pictures[:, 0], tiny_clip.SIZE))
    texts = torch.stack([tiny_clip.text_embedding(weights, prompt, "gelu") for prompt in PROMPTS])
    cosines = (tiny_clip.picture_embedding(weights, seen, "gelu") * texts).sum(1)
    expected = (weights["logit_scale"].exp() * cosines).tolist()
    assert reward.score(pictures, PROMPTS).tolist() == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_pitfall_46_the_default_weight_is_flow_grpos_and_the_score_stays_raw() -> None:
    assert PickScore().weight == 1 / 26
    assert "MixGRPO 1/8" in str(PickScore.model_fields["weight"].description)
