"""GenEval as a reward: a detector, a colour classifier, and the rules.

Shape legend
    N samples, K judged frames of each, H x W pixels, I objects in a picture, E embedding dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from backend.device import pick
from backend.methods.settings import Settings
from backend.rewards import clip, geneval_rules, scaling
from backend.rewards.clip import Clip
from backend.rewards.geneval_rules import Found
from backend.rewards.judging import RewardFailed
from backend.rewards.picture_reward import evenly
from backend.rewards.weights_file import NEWEST, commit, loading

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
TEMPLATES = ("a photo of a {colour} {name}", "a photo of a {colour}-colored {name}", "a photo of a {colour} object")
GREY = 153  # #999, painted where an object's crop is not the object
SURE, SURE_WHEN_COUNTING, MOST = 0.3, 0.9, 16


class Detector:
    """Mask2Former for instances. Its class names are COCO's, as GenEval's are."""

    def __init__(self, model: Any, processor: Any, device: torch.device) -> None:
        self.model = model.to(device).eval().requires_grad_(False)
        self.processor, self.device = processor, device
        self.names: dict[int, str] = model.config.id2label

    @torch.no_grad()
    def __call__(self, picture: NDArray[np.uint8], threshold: float) -> list[tuple[str, float, NDArray[np.bool_]]]:
        """[H, W, 3] of RGB levels -> (class, confidence, mask Bool[H, W]) of each object, surest first."""
        seen = self.processor(images=[picture], return_tensors="pt")
        outputs = self.model(pixel_values=seen["pixel_values"].to(self.device))
        logits = SimpleNamespace(  # on the CPU, where transformers puts the maps that it fills
            class_queries_logits=outputs.class_queries_logits.cpu(),
            masks_queries_logits=outputs.masks_queries_logits.cpu(),
        )
        (found,) = self.processor.post_process_instance_segmentation(
            logits, threshold=threshold, target_sizes=[picture.shape[:2]], return_binary_maps=True
        )
        infos = found["segments_info"]
        order = sorted(range(len(infos)), key=lambda i: -infos[i]["score"])
        masks = found["segmentation"]
        return [(self.names[infos[i]["label_id"]], float(infos[i]["score"]), masks[i].bool().numpy()) for i in order]


@lru_cache(maxsize=1)
def opened(checkpoint: str, revision: str | None) -> Detector:
    """Raises ValueError where there is no such checkpoint."""
    from transformers import Mask2FormerForUniversalSegmentation
    from transformers.models.mask2former.image_processing_pil_mask2former import Mask2FormerImageProcessorPil

    with loading("rewards.geneval.detector", checkpoint):
        model = Mask2FormerForUniversalSegmentation.from_pretrained(checkpoint, revision=revision or NEWEST)
        processor = Mask2FormerImageProcessorPil.from_pretrained(checkpoint, revision=revision or NEWEST)
    return Detector(model, processor, pick())


def box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a mask Bool[H, W] that is not empty; right and bottom are the first outside."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def colour(model: Clip, picture: NDArray[np.uint8], mask: NDArray[np.bool_], name: str) -> str:
    """Which of the ten colours an object has: zero-shot CLIP on its crop, with grey around it."""
    left, top, right, bottom = box(mask)
    painted = np.where(mask[..., None], picture, np.uint8(GREY))[top:bottom, left:right]
    crop = torch.from_numpy(np.ascontiguousarray(painted)).permute(2, 0, 1)[None].float() / 255
    texts = [form.format(colour=one, name=name) for one in COLOURS for form in TEMPLATES]
    classes = model.texts(texts).view(len(COLOURS), len(TEMPLATES), -1).mean(1)
    classes = torch.nn.functional.normalize(classes, dim=-1)
    return COLOURS[int((model.pictures(crop) @ classes.T).argmax())]


class GenEval(Settings):
    """Are the objects there that the prompt asks for, as many, of that colour, in that place?

    Prompts need metadata `include` in GenEval's form, and `tag` for its threshold: 0.9 where objects are counted, else
    0.3. facebook/mask2former-swin-small-coco-instance (69 million parameters, 0.28 GB, licence: see its card, unpinned)
    is of the architecture of GenEval's detector and another training, so scores are near the benchmark's and not its
    own. Colours: OpenAI's ViT-L/14 (MIT, 1.7 GB, pinned).
    """

    differentiable: ClassVar[bool] = False
    needs_metadata: ClassVar[Literal[True]] = True
    name: Literal["geneval"] = "geneval"
    weight: float = scaling.weight("geneval")
    form: Literal["graded", "strict"] = Field(
        "graded", description="graded = mean of the parts that are right (Flow-GRPO trains on it); strict = 1 or 0"
    )
    frames: int = Field(
        4, ge=1, le=256, description="Evenly spaced frames of a video whose mean counts; an image has one (ours)"
    )
    detector: str = Field(
        "facebook/mask2former-swin-small-coco-instance",
        min_length=1,
        description="Mask2Former of transformers for instances of COCO's classes: hub id or folder",
    )
    detector_revision: str | None = commit(None)
    colours: str = Field(
        clip.OPENAI_L14, min_length=1, description="CLIP model of transformers that names colours: hub id or folder"
    )
    colours_revision: str | None = commit(clip.OPENAI_L14_REVISION)

    def score(self, frames: Tensor, prompts: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> Tensor:
        """frames [N, F, 3, H, W] in 0..1 -> float64 [N]; NaN where metadata has no `include`.

        Raises RewardFailed when none has, and ValueError for one of another form.
        """
        if not any(told.get("include") for told in metadata):
            raise RewardFailed("geneval: no prompt has metadata `include`; use prompts in GenEval's form")
        levels = (evenly(frames, self.frames) * 255).round().clamp(0, 255).to(torch.uint8)
        pictures = levels.permute(0, 1, 3, 4, 2).cpu().numpy()
        rows = [
            float(np.mean([self._one(one, told) for one in shown])) if told.get("include") else math.nan
            for shown, told in zip(pictures, metadata, strict=True)
        ]
        return torch.tensor(rows, dtype=torch.float64)

    def _one(self, picture: NDArray[np.uint8], told: Mapping[str, Any]) -> float:
        asked = geneval_rules.clauses(told["include"])
        threshold = SURE_WHEN_COUNTING if told.get("tag") == "counting" else SURE
        graded, strict = geneval_rules.judge(asked, self._objects(picture, threshold))
        return float(strict) if self.form == "strict" else graded

    def _objects(self, picture: NDArray[np.uint8], threshold: float) -> dict[str, list[Found]]:
        """At most 16 a class, surest first."""
        found: dict[str, list[Found]] = {}
        for name, confidence, mask in opened(self.detector, self.detector_revision)(picture, threshold):
            objects = found.setdefault(name, [])
            if len(objects) < MOST:
                objects.append(Found(box(mask), confidence, partial(self._colour, picture, mask, name)))
        return found

    def _colour(self, picture: NDArray[np.uint8], mask: NDArray[np.bool_], name: str) -> str:
        model = clip.opened(
            "rewards.geneval.colours", self.colours, self.colours_revision, self.colours, self.colours_revision
        )
        return colour(model, picture, mask, name)
