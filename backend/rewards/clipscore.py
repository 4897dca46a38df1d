"""CLIPScore: how well a picture fits its prompt, by CLIP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor

from backend.rewards import clip, preprocessing, scaling
from backend.rewards.clip import ClipReward
from backend.rewards.weights_file import commit


class CLIPScore(ClipReward):
    """logit_scale x cosine of picture and prompt (Radford et al. 2021), about 20 to 35.

    OpenAI's ViT-L/14: MIT licence, 428 million parameters, 1.7 GB. Pinned.
    """

    name: Literal["clipscore"] = "clipscore"
    weight: float = scaling.weight("clipscore")
    checkpoint: str = Field(
        clip.OPENAI_L14,
        min_length=1,
        description="CLIP model of transformers with its tokenizer: hub id or folder (DGPO, DiffusionNFT)",
    )
    revision: str | None = commit(clip.OPENAI_L14_REVISION)

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        model = clip.opened(
            "rewards.clipscore.checkpoint", self.checkpoint, self.revision, self.checkpoint, self.revision
        )
        return model.model.logit_scale.exp() * model.cosines(pictures, prompts, self.batch, preprocessing.crop)
