"""PickScore (Kirstain et al. 2023, arXiv 2305.01569): what users of Pick-a-Pic would have picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor

from backend.rewards import clip, preprocessing, scaling
from backend.rewards.clip import ClipReward
from backend.rewards.weights_file import commit


class PickScore(ClipReward):
    """logit_scale x cosine of picture and prompt under a CLIP ViT-H/14 that was tuned on votes, about 18 to 25.

    PickScore_v1: MIT licence, 986 million parameters, 3.9 GB. Pinned.
    """

    name: Literal["pickscore"] = "pickscore"
    weight: float = scaling.weight("pickscore")
    checkpoint: str = Field(
        "yuvalkirstain/PickScore_v1", min_length=1, description="CLIP model of transformers: hub id or folder"
    )
    revision: str | None = commit("a4e4367c6dfa7288a00c550414478f865b875800")
    tokenizer: str = Field(
        clip.LAION_H14, min_length=1, description="Whose tokenizer reads the prompts: hub id or folder (source)"
    )
    tokenizer_revision: str | None = commit(clip.LAION_H14_REVISION)

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        model = clip.opened(
            "rewards.pickscore.checkpoint", self.checkpoint, self.revision, self.tokenizer, self.tokenizer_revision
        )
        return model.model.logit_scale.exp() * model.cosines(pictures, prompts, self.batch, preprocessing.crop)
