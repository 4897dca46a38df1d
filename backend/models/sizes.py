"""How large a base is, from the configuration of its transformer. No weights are loaded, and nothing is downloaded.

D is the width of a transformer, F that of its feed-forward layers. A block is a layer of one token's stream; layers of
two streams (SD3, FLUX.1's first ones) are counted once for each token that passes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.models.source import read_config

SD3_MEDIUM = {
    "num_layers": 24, "num_attention_heads": 24, "attention_head_dim": 64, "in_channels": 16, "out_channels": 16,
    "patch_size": 2, "joint_attention_dim": 4096, "pooled_projection_dim": 2048, "caption_projection_dim": 1536,
    "qk_norm": None, "dual_attention_layers": (),
}  # fmt: skip
FLUX = {
    "num_layers": 19, "num_single_layers": 38, "num_attention_heads": 24, "attention_head_dim": 128,
    "in_channels": 64, "joint_attention_dim": 4096, "pooled_projection_dim": 768, "guidance_embeds": True,
}  # fmt: skip
WAN = {
    "num_layers": 30, "num_attention_heads": 12, "attention_head_dim": 128, "ffn_dim": 8960, "in_channels": 16,
    "out_channels": 16, "text_dim": 4096, "freq_dim": 256, "image_dim": None, "added_kv_proj_dim": None,
}  # fmt: skip
WAN_14B = WAN | {"num_layers": 40, "num_attention_heads": 40, "ffn_dim": 13824}
WAN_I2V = WAN_14B | {"in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": 5120}
PUBLIC: Mapping[str, Mapping[str, Any]] = {
    "stabilityai/stable-diffusion-3-medium-diffusers": SD3_MEDIUM,
    "stabilityai/stable-diffusion-3.5-medium": SD3_MEDIUM
    | {"qk_norm": "rms_norm", "dual_attention_layers": tuple(range(13))},
    "stabilityai/stable-diffusion-3.5-large": SD3_MEDIUM
    | {"num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432, "qk_norm": "rms_norm"},
    "black-forest-labs/FLUX.1-dev": FLUX,
    "black-forest-labs/FLUX.1-schnell": FLUX | {"guidance_embeds": False},
    "Wan-AI/Wan2.1-T2V-1.3B-Diffusers": WAN,
    "Wan-AI/Wan2.1-T2V-14B-Diffusers": WAN_14B,
    "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers": WAN_I2V,
    "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers": WAN_I2V,
}
# parameters beside the transformer of public bases: text encoders (CLIP-L, CLIP-G, T5; CLIP-L, T5; UMT5), autoencoder
BESIDE = {"sd3": (5_581_000_000, 84_000_000), "flux": (4_885_000_000, 84_000_000), "wan": (5_681_000_000, 127_000_000)}
FREQUENCIES = 256  # of the sinusoids that tell a transformer the time


@dataclass(frozen=True)
class Size:
    """parameters  of the transformer;  width D;  feed_forward F
    blocks         layers that one token passes
    adapted        sum of inputs and outputs of the layers that get adapters: times the rank it is their parameters
    adapted_inputs sum of the inputs of those of one block
    """

    parameters: int
    width: int
    feed_forward: int
    blocks: int
    adapted: int
    adapted_inputs: int


def size_of(family: str, base: str) -> Size | None:
    """The size of a base whose configuration is on this machine, or known by its public id; None of any other.

    A configuration of another family, or one that leaves out what is counted, tells no size.
    """
    config = read_config(base, "transformer/config.json") or PUBLIC.get(base)
    name, count = FAMILIES[family]
    if config is None or config.get("_class_name", name) != name:
        return None
    try:
        return count(config)
    except (KeyError, TypeError):
        return None


def beside(family: str, base: str) -> tuple[int, int]:
    """Parameters of text encoders and of the autoencoder: counted in a folder's files, else those of the family."""
    if not Path(base).is_dir():
        return BESIDE[family]
    return _stored(base, "text_encoder*"), _stored(base, "vae")


def _stored(base: str, part: str) -> int:
    """Numbers in the .safetensors files of a folder's component, by their heads alone."""
    count = 0
    for file in Path(base).glob(f"{part}/*.safetensors"):
        with file.open("rb") as opened:
            head = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        count += sum(math.prod(one["shape"]) for name, one in head.items() if name != "__metadata__")
    return count


def _linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def _embedder(inputs: int, width: int) -> int:
    """Two layers, of which the first takes the input to the width."""
    return _linear(inputs, width) + _linear(width, width)


def sd3(config: Mapping[str, Any]) -> Size:
    """SD3Transformer2DModel: joint blocks of two streams, whose last leaves out the text's way out."""
    head, layers = config["attention_head_dim"], config["num_layers"]
    d = config["num_attention_heads"] * head
    patch = config["patch_size"] ** 2
    dual = len(config.get("dual_attention_layers") or ())
    norms = 2 * head if config.get("qk_norm") else 0
    stream = _linear(d, 6 * d) + 4 * _linear(d, d) + norms + _feed_forward(d)
    last_lacks = _linear(d, 6 * d) - _linear(d, 2 * d) + _linear(d, d) + _feed_forward(d)
    more = _linear(d, 9 * d) - _linear(d, 6 * d) + 4 * _linear(d, d) + norms
    ends = (
        _linear(config["in_channels"] * patch, d)
        + _embedder(FREQUENCIES, d)
        + _embedder(config["pooled_projection_dim"], d)
        + _linear(config["joint_attention_dim"], config["caption_projection_dim"])
        + _linear(d, 2 * d)
        + _linear(d, patch * config["out_channels"])
    )
    total = 2 * layers * stream - last_lacks + dual * more + ends
    return Size(total, d, 4 * d, layers, (8 * layers - 1) * 2 * d, 4 * d)


def _feed_forward(d: int) -> int:
    """A feed-forward layer of 4 D."""
    return _linear(d, 4 * d) + _linear(4 * d, d)


def flux(config: Mapping[str, Any]) -> Size:
    """FluxTransformer2DModel: joint blocks of two streams, then single ones that hold their feed-forward beside."""
    head, joint, single = config["attention_head_dim"], config["num_layers"], config["num_single_layers"]
    d = config["num_attention_heads"] * head
    channels = config["in_channels"]
    two = 2 * (_linear(d, 6 * d) + 4 * _linear(d, d) + 2 * head + _feed_forward(d))
    one = _linear(d, 3 * d) + _linear(d, 4 * d) + _linear(5 * d, d) + 3 * _linear(d, d) + 2 * head
    times = 2 if config.get("guidance_embeds") else 1
    ends = (
        times * _embedder(FREQUENCIES, d)
        + _embedder(config["pooled_projection_dim"], d)
        + _linear(config["joint_attention_dim"], d)
        + _linear(channels, d)
        + _linear(d, 2 * d)
        + _linear(d, config.get("out_channels") or channels)
    )
    adapted = joint * (8 * 2 * d + 4 * 5 * d) + single * 3 * 2 * d
    inputs = (joint * 9 * d + single * 3 * d) // (joint + single)
    return Size(joint * two + single * one + ends, d, 4 * d, joint + single, adapted, inputs)


def wan(config: Mapping[str, Any]) -> Size:
    """WanTransformer3DModel: self-attention, cross-attention to text (and a picture), feed-forward."""
    d, f, layers = config["num_attention_heads"] * config["attention_head_dim"], config["ffn_dim"], config["num_layers"]
    added, image = config.get("added_kv_proj_dim"), config.get("image_dim")
    block = 2 * (4 * _linear(d, d) + 2 * d) + 2 * d + _linear(d, f) + _linear(f, d) + 6 * d
    if added:
        block += 2 * _linear(added, d) + d
    ends = 2 * d + _linear(4 * config["in_channels"], d) + _embedder(config["freq_dim"], d) + _linear(d, 6 * d)
    ends += _embedder(config["text_dim"], d) + _linear(d, 4 * config["out_channels"])
    if image:
        ends += 2 * image + _linear(image, image) + _linear(image, d) + 2 * d
    adapted = layers * (8 * 2 * d + (2 * (added + d) if added else 0))
    return Size(layers * block + ends, d, f, layers, adapted, 6 * d)


FAMILIES: dict[str, tuple[str, Callable[[Mapping[str, Any]], Size]]] = {
    "sd3": ("SD3Transformer2DModel", sd3),
    "flux": ("FluxTransformer2DModel", flux),
    "wan": ("WanTransformer3DModel", wan),
}
