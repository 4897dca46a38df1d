"""A CLIP model as a judge: unit embeddings of pictures and prompts, and the settings that CLIP rewards share.

Shape legend
    N pictures, E embedding dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from backend.device import pick
from backend.rewards import preprocessing
from backend.rewards.picture_reward import PictureReward
from backend.rewards.weights_file import NEWEST, loading

OPENAI_L14, OPENAI_L14_REVISION = "openai/clip-vit-large-patch14", "32bd64288804d66eefd0ccbe215aa642df71cc41"
LAION_H14, LAION_H14_REVISION = (
    "laion/CLIP-ViT-H-14-laion2B-s32B-b79K",
    "1c2b8495b28150b8a4922ee1c8edee224c284c0c",
)


class Clip:
    """A frozen CLIPModel with its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, device: torch.device) -> None:
        self.model = model.to(device).float().eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.device = device
        self.size: int = model.config.vision_config.image_size
        self._length: int = model.config.text_config.max_position_embeddings

    def pictures(self, pictures: Tensor, fit: Callable[[Tensor, int], Tensor] = preprocessing.crop) -> Tensor:
        """[N, 3, H, W] in 0..1 -> unit embeddings [N, E], with gradients where pictures have them."""
        seen = preprocessing.normalise(fit(pictures.to(self.device), self.size))
        found: Tensor = self.model.get_image_features(pixel_values=seen).pooler_output
        return torch.nn.functional.normalize(found, dim=-1)

    @torch.no_grad()
    def texts(self, prompts: Sequence[str]) -> Tensor:
        """Unit embeddings [N, E]; a text that stands there twice is encoded once."""
        distinct = list(dict.fromkeys(prompts))
        tokens = self.tokenizer(
            distinct, padding=True, truncation=True, max_length=self._length, return_tensors="pt"
        ).to(self.device)
        found = self.model.get_text_features(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask)
        places = [distinct.index(prompt) for prompt in prompts]
        return torch.nn.functional.normalize(found.pooler_output, dim=-1)[places]

    def cosines(
        self, pictures: Tensor, prompts: Sequence[str], batch: int, fit: Callable[[Tensor, int], Tensor]
    ) -> Tensor:
        """Of each picture and its prompt, [N], `batch` at a time."""
        rows = torch.arange(len(pictures)).split(batch)
        texts = self.texts(prompts)
        return torch.cat([(self.pictures(pictures[at], fit) * texts[at]).sum(-1) for at in rows])


@lru_cache(maxsize=4)
def opened(field: str, checkpoint: str, revision: str | None, tokenizer: str, tokenizer_revision: str | None) -> Clip:
    """A CLIP checkpoint of transformers. Raises ValueError, naming the settings field, where there is none."""
    from transformers import AutoTokenizer, CLIPModel

    with loading(field, checkpoint):
        model = CLIPModel.from_pretrained(checkpoint, revision=revision or NEWEST)
    with loading(field, tokenizer):
        return Clip(model, AutoTokenizer.from_pretrained(tokenizer, revision=tokenizer_revision or NEWEST), pick())


class ClipReward(PictureReward):
    """Fields of every reward that looks through CLIP. Their gradients reach the frames, so ReFL can train on them."""

    differentiable: ClassVar[bool] = True
    batch: int = Field(32, ge=1, le=4096, description="Most pictures in one forward of the reward model (ours)")
