"""HPSv2.1 (Wu et al. 2023, arXiv 2306.09341): which picture people would prefer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.device import pick
from backend.rewards import clip, open_clip, preprocessing, scaling
from backend.rewards.clip import Clip, ClipReward
from backend.rewards.weights_file import NEWEST, commit, find, loading


@lru_cache(maxsize=2)
def opened(base: str, base_revision: str | None, weights: str, weights_revision: str | None) -> Clip:
    """OpenCLIP weights in transformers' model of the same architecture."""
    from transformers import AutoTokenizer, CLIPConfig, CLIPModel

    with loading("rewards.hpsv2.base", base):
        model = CLIPModel(CLIPConfig.from_pretrained(base, revision=base_revision or NEWEST))
        tokenizer = AutoTokenizer.from_pretrained(base, revision=base_revision or NEWEST)
    with loading("rewards.hpsv2.weights", weights):
        stored = torch.load(find(weights, weights_revision), map_location="cpu", weights_only=True)
        model.load_state_dict(open_clip.converted(stored["state_dict"]))
    return Clip(model, tokenizer, pick())


class HPSv2(ClipReward):
    """Cosine of picture and prompt under an OpenCLIP ViT-H/14 that was tuned on votes, about 0.20 to 0.38.

    Pictures that are not square are padded, not cropped, as the release does (a crop moves scores by about 0.01).
    HPS_v2.1_compressed.pt: Apache-2.0 licence, 986 million parameters, 2 GB; architecture and tokenizer are LAION's.
    Both are pinned.
    """

    name: Literal["hpsv2"] = "hpsv2"
    weight: float = scaling.weight("hpsv2")
    weights: str = Field(
        "xswu/HPSv2/HPS_v2.1_compressed.pt",
        min_length=1,
        description="OpenCLIP checkpoint: a file, or owner/name/file of the hub",
    )
    weights_revision: str | None = commit("697403c78157020a1ae59d23f111aa58ced35b0a")
    base: str = Field(
        clip.LAION_H14, min_length=1, description="Whose architecture and tokenizer they fit: hub id or folder"
    )
    base_revision: str | None = commit(clip.LAION_H14_REVISION)

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        model = opened(self.base, self.base_revision, self.weights, self.weights_revision)
        return model.cosines(pictures, prompts, self.batch, preprocessing.pad)
