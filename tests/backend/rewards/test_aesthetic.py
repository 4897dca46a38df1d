from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.rewards import aesthetic, preprocessing
from backend.rewards.aesthetic import Aesthetic
from tests.backend.rewards import tiny_clip


def stored(file: Path, outputs: int = 1) -> dict[str, Tensor]:
    """A predictor of random weights, by the names of the released file."""
    generator = torch.Generator().manual_seed(0)
    layers = {}
    sizes = (tiny_clip.EMBED, 1024, 128, 64, 16, outputs)
    for number, (inner, outer) in zip((0, 2, 4, 6, 7), pairwise(sizes), strict=True):
        layers[f"layers.{number}.weight"] = torch.randn(outer, inner, generator=generator) / inner**0.5
        layers[f"layers.{number}.bias"] = torch.randn(outer, generator=generator)
    torch.save(layers, file)
    return layers


def test_it_is_the_predictor_on_the_unit_embedding(
    openai_like: tuple[Path, dict[str, Tensor]], pictures: Tensor, tmp_path: Path
) -> None:
    folder, weights = openai_like
    layers = stored(tmp_path / "head.pth")
    seen = preprocessing.normalise(preprocessing.crop(pictures[:, 0], tiny_clip.SIZE))
    x = tiny_clip.picture_embedding(weights, seen, "quick_gelu")
    for number in (0, 2, 4, 6, 7):
        x = x @ layers[f"layers.{number}.weight"].T + layers[f"layers.{number}.bias"]
    reward = Aesthetic(checkpoint=str(folder), revision=None, predictor=str(tmp_path / "head.pth"))
    found = reward.score(pictures, ["a", "b", "c"])
    assert found.tolist() == pytest.approx(x[:, 0].tolist(), rel=1e-4, abs=1e-4)
    assert torch.equal(found, reward.score(pictures, ["other", "words", "here"]))


def test_the_released_head_has_the_published_layers() -> None:
    shapes = {name: tuple(value.shape) for name, value in aesthetic.head(768).state_dict().items()}
    assert {name: shape for name, shape in shapes.items() if name.endswith("weight")} == {
        "0.weight": (1024, 768), "2.weight": (128, 1024), "4.weight": (64, 128), "6.weight": (16, 64),
        "7.weight": (1, 16),
    }  # fmt: skip


def test_another_file_is_refused(openai_like: tuple[Path, dict[str, Tensor]], pictures: Tensor, tmp_path: Path) -> None:
    stored(tmp_path / "wrong.pth", outputs=2)
    reward = Aesthetic(checkpoint=str(openai_like[0]), revision=None, predictor=str(tmp_path / "wrong.pth"))
    with pytest.raises(ValueError, match=r"(?s)rewards\.aesthetic\.predictor.*size mismatch"):
        reward.score(pictures, ["a", "b", "c"])
