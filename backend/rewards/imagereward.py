"""ImageReward (Xu et al. 2023, arXiv 2304.05977): which picture people would prefer, by BLIP.

Shape legend
    N pictures, L tokens, D hidden dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.device import pick
from backend.rewards import aesthetic, blip_names, preprocessing, scaling
from backend.rewards.blip_names import PICTURE, WORDS
from backend.rewards.picture_reward import PictureReward
from backend.rewards.weights_file import NEWEST, commit, find, loading

MEAN, STD = 0.16717362830052426, 1.0333394966054072  # of the predictor's outputs, from the release
LENGTH = 35
HEAD = 64  # dimensions of an attention head, in BLIP's base and large models and in BERT


class Judge:
    """BLIP's picture encoder, its text encoder that attends to the picture, and a predictor on the first token."""

    def __init__(self, stored: dict[str, Tensor], tokenizer: Any, device: torch.device) -> None:
        """stored: by the release's names. Raises KeyError or RuntimeError where weights are missing or do not fit."""
        from transformers.models.blip.modeling_blip import BlipVisionModel
        from transformers.models.blip.modeling_blip_text import BlipTextModel

        config, parts = architecture(stored), blip_names.converted(stored)
        self.vision = BlipVisionModel(config.vision_config)
        self.text = BlipTextModel(config.text_config, add_pooling_layer=False)
        self.predictor = aesthetic.head(config.text_config.hidden_size)
        each: tuple[tuple[Any, dict[str, Tensor]], ...] = (
            (self.vision, parts.vision),
            (self.text, parts.text),
            (self.predictor, parts.predictor),
        )
        for model, weights in each:
            model.load_state_dict(weights)
            model.to(device).float().eval().requires_grad_(False)
        self.size: int = config.vision_config.image_size
        self.tokenizer, self.device = tokenizer, device

    def __call__(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        """pictures [N, 3, H, W] in 0..1 and N prompts -> [N], with gradients where pictures have them."""
        seen = preprocessing.normalise(preprocessing.crop(pictures.to(self.device), self.size))
        embeds = self.vision(pixel_values=seen).last_hidden_state
        tokens = self.tokenizer(
            list(prompts), padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt"
        ).to(self.device)
        found = self.text(
            input_ids=tokens.input_ids,
            attention_mask=tokens.attention_mask,
            encoder_hidden_states=embeds,
            encoder_attention_mask=torch.ones(embeds.shape[:2], dtype=torch.long, device=self.device),
        ).last_hidden_state
        raw: Tensor = self.predictor(found[:, 0])[:, 0]
        return (raw - MEAN) / STD


def architecture(stored: dict[str, Tensor]) -> Any:
    """The BlipConfig whose weights these are. Raises KeyError for other weights."""
    from transformers import BlipConfig

    patch, places = stored[f"{PICTURE}patch_embed.proj.weight"], stored[f"{PICTURE}pos_embed"]
    words, positions = (stored[f"{WORDS}embeddings.{kind}_embeddings.weight"] for kind in ("word", "position"))
    vision = {
        "hidden_size": patch.shape[0],
        "intermediate_size": stored[f"{PICTURE}blocks.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": sum(name.endswith(".attn.qkv.weight") for name in stored),
        "num_attention_heads": patch.shape[0] // HEAD,
        "patch_size": patch.shape[-1],
        "image_size": round((places.shape[1] - 1) ** 0.5) * patch.shape[-1],
        "layer_norm_eps": 1e-6,
    }
    text = {
        "hidden_size": words.shape[1],
        "intermediate_size": stored[f"{WORDS}encoder.layer.0.intermediate.dense.weight"].shape[0],
        "num_hidden_layers": sum(name.endswith(".intermediate.dense.weight") for name in stored),
        "num_attention_heads": words.shape[1] // HEAD,
        "vocab_size": words.shape[0],
        "max_position_embeddings": positions.shape[0],
        "encoder_hidden_size": patch.shape[0],
        "layer_norm_eps": 1e-12,
        "is_decoder": True,  # it has cross-attention; its self-attention still looks both ways
    }
    return BlipConfig(vision_config=vision, text_config=text)


@lru_cache(maxsize=1)
def opened(weights: str, weights_revision: str | None, tokenizer: str, tokenizer_revision: str | None) -> Judge:
    """Raises ValueError where a file cannot be fetched or is of another model."""
    from transformers import AutoTokenizer

    with loading("rewards.imagereward.tokenizer", tokenizer):
        words = AutoTokenizer.from_pretrained(tokenizer, revision=tokenizer_revision or NEWEST)
    with loading("rewards.imagereward.weights", weights):
        stored = torch.load(find(weights, weights_revision), map_location="cpu", weights_only=True)
        return Judge(stored, words, pick())


class ImageReward(PictureReward):
    """A predictor on BLIP that was trained on ranked pictures, as a z-score: about -2 to 2.

    ImageReward-v1.0: Apache-2.0 licence, 446 million parameters, 1.8 GB. BERT's tokenizer: Apache-2.0. Both are pinned.
    """

    differentiable: ClassVar[bool] = True
    name: Literal["imagereward"] = "imagereward"
    weight: float = scaling.weight("imagereward")
    batch: int = Field(32, ge=1, le=4096, description="Most pictures in one forward of the reward model (ours)")
    weights: str = Field(
        "THUDM/ImageReward/ImageReward.pt",
        min_length=1,
        description="The release's state dict: a file, or owner/name/file of the hub",
    )
    weights_revision: str | None = commit("5736be03b2652728fb87788c9797b0570450ab72")
    tokenizer: str = Field(
        "google-bert/bert-base-uncased", min_length=1, description="BERT tokenizer: hub id or folder (source)"
    )
    tokenizer_revision: str | None = commit("86b5e0934494bd15c9632b12f734a8a67f723594")

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        judge = opened(self.weights, self.weights_revision, self.tokenizer, self.tokenizer_revision)
        rows = torch.arange(len(pictures)).split(self.batch)
        return torch.cat([judge(pictures[at], [prompts[i] for i in at.tolist()]) for at in rows])
