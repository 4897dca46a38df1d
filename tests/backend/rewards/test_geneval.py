"""GenEval's parts on tiny real models, and the rules on what a detector of random weights finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from backend.rewards import clip, geneval, preprocessing
from backend.rewards.geneval import COLOURS, GenEval
from backend.rewards.judging import RewardFailed
from tests.backend.rewards import tiny_clip


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, SwinConfig
    from transformers.models.mask2former.image_processing_pil_mask2former import Mask2FormerImageProcessorPil

    stages = [f"stage{number}" for number in (1, 2, 3, 4)]
    backbone = SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[1] * 4, num_heads=[1, 1, 2, 2], window_size=4,
        out_features=stages,
    )  # fmt: skip
    config = Mask2FormerConfig(
        backbone_config=backbone, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=32,
        encoder_layers=1, decoder_layers=2, num_attention_heads=2, dim_feedforward=32, num_queries=6,
        id2label={0: "clock", 1: "dog", 2: "car"},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("detector")
    torch.manual_seed(0)
    Mask2FormerForUniversalSegmentation(config).save_pretrained(folder)
    Mask2FormerImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(folder)
    return folder


def test_objects_have_masks_of_the_picture_and_fall_in_confidence(detector: Path, pictures: Tensor) -> None:
    picture = (pictures[0, 0] * 255).round().byte().permute(1, 2, 0).numpy()
    found = geneval.opened(str(detector), None)(picture, 0.0)
    assert found
    confidences = [confidence for _, confidence, _ in found]
    assert confidences == sorted(confidences, reverse=True)
    assert {name for name, _, _ in found} <= {"clock", "dog", "car"}
    assert all(mask.shape == (20, 28) for _, _, mask in found)
    assert geneval.opened(str(detector), None)(picture, 1.0) == []


def test_the_score_is_that_of_the_rules_on_what_was_found(
    detector: Path, pictures: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geneval, "SURE", 0.0)  # random weights are sure of nothing
    picture = (pictures[0, 0] * 255).round().byte().permute(1, 2, 0).numpy()
    names = [name for name, _, _ in geneval.opened(str(detector), None)(picture, 0.0)]
    name = names[0]
    reward, number = GenEval(detector=str(detector)), names.count(names[0])
    asked = [
        {"include": [{"class": name, "count": number}]},
        {"include": [{"class": name, "count": number + 1}]},
        {"include": [{"class": name, "count": 5}], "tag": "counting"},  # needs 0.9
        {},
    ]
    same = pictures[:1].expand(4, -1, -1, -1, -1)
    found = reward.score(same, ["x"] * 4, asked)
    assert found[:3].tolist() == pytest.approx([1.0, number / (number + 1), 0.0])
    assert found[3].isnan()
    strict = reward.model_copy(update={"form": "strict"}).score(same, ["x"] * 4, asked)
    assert strict[:3].tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(RewardFailed, match="no prompt has metadata"):
        reward.score(same, ["x"] * 4, [{}] * 4)


def test_a_box_holds_its_mask() -> None:
    mask = np.zeros((10, 12), dtype=bool)
    mask[2:5, 3:9] = True
    assert geneval.box(mask) == (3, 2, 9, 5)


def test_the_colour_is_the_nearest_mean_text_to_the_crop_on_grey(openai_like: tuple[Path, dict[str, Tensor]]) -> None:
    folder, weights = openai_like
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)
    mask = np.zeros((24, 24), dtype=bool)
    mask[4:20, 4:20] = rng.random((16, 16)) > 0.3
    mask[4, 4] = mask[19, 19] = True
    painted = picture.copy()
    painted[~mask] = 0x99
    crop = torch.from_numpy(painted[4:20, 4:20]).permute(2, 0, 1)[None].float() / 255
    seen = tiny_clip.picture_embedding(weights, preprocessing.normalise(crop), "quick_gelu")
    texts = [
        torch.stack([
            tiny_clip.text_embedding(weights, form.format(colour=one, name="car"), "quick_gelu")
            for form in ("a photo of a {colour} {name}", "a photo of a {colour}-colored {name}",
                         "a photo of a {colour} object")
        ]).mean(0)
        for one in COLOURS
    ]  # fmt: skip
    cosines = torch.nn.functional.normalize(torch.stack(texts), dim=-1) @ seen[0]
    model = clip.opened("test", str(folder), None, str(folder), None)
    assert geneval.colour(model, picture, mask, "car") == COLOURS[int(cosines.argmax())]
