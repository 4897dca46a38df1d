"""OpenCLIP's names of the weights of a CLIP model, as transformers names them."""

from __future__ import annotations

import re

from torch import Tensor

PLAIN = {
    "logit_scale": "logit_scale",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
}
TRANSPOSED = {"text_projection": "text_projection.weight", "visual.proj": "visual_projection.weight"}
IN_BLOCK = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
BLOCK = re.compile(r"(visual\.)?transformer\.resblocks\.(\d+)\.(.+)[._](weight|bias)")


def converted(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of OpenCLIP's CLIP as one of transformers' CLIPModel. Raises KeyError with a name it does not know.

    OpenCLIP's projections multiply from the left, and its queries, keys and values are one matrix.
    """
    found: dict[str, Tensor] = {}
    for name, value in weights.items():
        if name in PLAIN:
            found[PLAIN[name]] = value
        elif name in TRANSPOSED:
            found[TRANSPOSED[name]] = value.T.contiguous()
        elif match := BLOCK.fullmatch(name):
            found |= _block(value, *match.groups())
        elif name != "attn_mask":  # the causal mask, which transformers makes anew
            raise KeyError(name)
    return found


def _block(value: Tensor, visual: str | None, number: str, part: str, kind: str) -> dict[str, Tensor]:
    layer = f"{'vision' if visual else 'text'}_model.encoder.layers.{number}"
    if part != "attn.in_proj":
        return {f"{layer}.{IN_BLOCK[part]}.{kind}": value}
    each = zip(("q_proj", "k_proj", "v_proj"), value.chunk(3), strict=True)
    return {f"{layer}.self_attn.{name}.{kind}": part.clone() for name, part in each}
