from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.rewards import preprocessing
from backend.rewards.hpsv2 import HPSv2
from tests.backend.rewards import tiny_clip

PROMPTS = ["a b", "c d", "e f"]


@pytest.fixture
def release(tmp_path: Path) -> tuple[Path, dict[str, Tensor]]:
    """A checkpoint as HPSv2 publishes it, half precision included, of other weights than the base's."""
    weights = tiny_clip.open_clip_names(tiny_clip.model("gelu", seed=5))
    halves = {name: value.half() for name, value in weights.items()}
    torch.save({"epoch": 1, "state_dict": halves}, tmp_path / "hps.pt")
    return tmp_path / "hps.pt", {name: value.float() for name, value in halves.items()}


def reward(base: Path, weights: Path) -> HPSv2:
    return HPSv2(base=str(base), base_revision=None, weights=str(weights), weights_revision=None)


def test_it_is_the_cosine_of_open_clips_forward_on_padded_pictures(
    release: tuple[Path, dict[str, Tensor]], laion_like: tuple[Path, dict[str, Tensor]], pictures: Tensor
) -> None:
    file, weights = release
    seen = preprocessing.normalise(preprocessing.pad(pictures[:, 0], tiny_clip.SIZE))
    texts = torch.stack([tiny_clip.text_embedding(weights, prompt, "gelu") for prompt in PROMPTS])
    expected = (tiny_clip.picture_embedding(weights, seen, "gelu") * texts).sum(1).tolist()
    found = reward(laion_like[0], file).score(pictures, PROMPTS).tolist()
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_a_file_with_other_names_is_refused(laion_like: tuple[Path, dict[str, Tensor]], tmp_path: Path) -> None:
    torch.save({"state_dict": {"score_predictor.weight": torch.zeros(1)}}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"rewards\.hpsv2\.weights.*score_predictor"):
        reward(laion_like[0], tmp_path / "other.pt").score(torch.zeros(1, 1, 3, 4, 4), ["x"])
