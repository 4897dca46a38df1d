"""A trained LoRA as a .safetensors file that pipelines load, in the key style of diffusers or of ComfyUI.

Both styles hold for a layer the factors A [rank, in] and B [out, rank].
    diffusers   keys `transformer.LAYER.lora_A.weight`; alpha and rank are in the metadata
    comfyui     the same keys for SD3 and FLUX, which ComfyUI maps to its own layers; Wan's own layer names behind
                `diffusion_model.`. It reads no metadata, so B is multiplied by alpha / rank
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from backend.models.weights import ADAPTER

Style = Literal["diffusers", "comfyui"]
FILE = "pytorch_lora_weights.safetensors"
ADAPTER_NOTES = "lora_adapter_metadata"  # the key that diffusers reads a LoRA's config from
WAN_LAYERS = {
    "attn1.to_q": "self_attn.q",
    "attn1.to_k": "self_attn.k",
    "attn1.to_v": "self_attn.v",
    "attn1.to_out.0": "self_attn.o",
    "attn2.to_q": "cross_attn.q",
    "attn2.to_k": "cross_attn.k",
    "attn2.to_v": "cross_attn.v",
    "attn2.to_out.0": "cross_attn.o",
    "attn2.add_k_proj": "cross_attn.k_img",
    "attn2.add_v_proj": "cross_attn.v_img",
    "ffn.net.0.proj": "ffn.0",
    "ffn.net.2": "ffn.2",
}
_FACTOR = re.compile(rf"(.+)\.(lora_[AB])\.{ADAPTER}\.weight")


def adapter_notes(config: Any) -> dict[str, Any]:
    """A PEFT config as plain data."""
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.to_dict().items()}
    return dict(json.loads(json.dumps(plain, default=str)))


def read_adapter(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The PEFT config in the metadata of a file of diffusers' style."""
    packed = json.loads(metadata[ADAPTER_NOTES])
    return {name.removeprefix("transformer."): value for name, value in packed.items()}


def write(
    file: Path,
    trained: Mapping[str, Tensor],
    adapter: Mapping[str, Any],
    notes: Mapping[str, str],
    family: str,
    style: Style = "diffusers",
) -> None:
    """Write a policy's trained parameters, by name, to a file.

    adapter  its PEFT config (r, lora_alpha, target_modules ...);  notes  metadata for people.
    Raises ValueError for a parameter that is no factor of an adapter, and for one whose layer a style cannot name.
    """
    from safetensors.torch import save_file

    rank, alpha = int(adapter["r"]), float(adapter["lora_alpha"])
    stored = {}
    for name, value in trained.items():
        match = _FACTOR.fullmatch(name)
        if match is None:
            raise ValueError(f"lora: {name} is no adapter's weight; only a run with tuning lora has a LoRA to export")
        layer, factor = match[1], match[2]
        value = value.detach().cpu()
        if style == "comfyui":
            layer, value = _comfyui_layer(layer, family), value * (alpha / rank) if factor == "lora_B" else value
        else:
            layer = f"transformer.{layer}"
        stored[f"{layer}.{factor}.weight"] = value.contiguous()
    metadata = {"format": "pt", **notes, "rank": str(rank), "alpha": f"{alpha:g}"}
    if style == "diffusers":
        metadata[ADAPTER_NOTES] = json.dumps({f"transformer.{name}": value for name, value in adapter.items()})
    else:
        metadata["alpha"] = str(rank)  # the scale is in B
    save_file(stored, file, metadata=metadata)


def _comfyui_layer(layer: str, family: str) -> str:
    if family != "wan":
        return f"transformer.{layer}"
    match = re.fullmatch(r"(blocks\.\d+)\.(.+)", layer)
    if match is None or match[2] not in WAN_LAYERS:
        raise ValueError(f"lora: {layer} has no name in ComfyUI's style; export with --style diffusers")
    return f"diffusion_model.{match[1]}.{WAN_LAYERS[match[2]]}"
