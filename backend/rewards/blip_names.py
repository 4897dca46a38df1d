"""ImageReward's names of its BLIP weights, as transformers names them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from torch import Tensor

PICTURE, WORDS, PREDICTOR = "blip.visual_encoder.", "blip.text_encoder.", "mlp.layers."
UNUSED = ("blip.vision_proj.", "blip.text_proj.")  # of BLIP's own pre-training
PLAIN = {
    "cls_token": "embeddings.class_embedding",
    "pos_embed": "embeddings.position_embedding",
    "patch_embed.proj": "embeddings.patch_embedding",
    "norm": "post_layernorm",
}
IN_BLOCK = {
    "norm1": "layer_norm1",
    "norm2": "layer_norm2",
    "attn.qkv": "self_attn.qkv",
    "attn.proj": "self_attn.projection",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
BLOCK = re.compile(r"blocks\.(\d+)\.(.+)")
KIND = re.compile(r"(.+?)(\.weight|\.bias)?")


@dataclass(frozen=True)
class Parts:
    """State dicts of BlipVisionModel, BlipTextModel and the predictor."""

    vision: dict[str, Tensor] = field(default_factory=dict)
    text: dict[str, Tensor] = field(default_factory=dict)
    predictor: dict[str, Tensor] = field(default_factory=dict)


def converted(weights: dict[str, Tensor]) -> Parts:
    """The three models' state dicts. Raises KeyError with a name it does not know."""
    parts = Parts()
    for name, value in weights.items():
        if name.startswith(PICTURE):
            parts.vision[_picture(name.removeprefix(PICTURE))] = value
        elif name.startswith(WORDS):
            if not name.endswith(".position_ids"):  # 0, 1, 2, ..., which transformers makes anew
                parts.text[name.removeprefix(WORDS)] = value
        elif name.startswith(PREDICTOR):
            parts.predictor[name.removeprefix(PREDICTOR)] = value
        elif not name.startswith(UNUSED):
            raise KeyError(name)
    return parts


def _picture(name: str) -> str:
    if match := BLOCK.fullmatch(name):
        part, kind = match[2].rsplit(".", 1)
        return f"encoder.layers.{match[1]}.{IN_BLOCK[part]}.{kind}"
    match = KIND.fullmatch(name)
    assert match is not None
    return PLAIN[match[1]] + (match[2] or "")
