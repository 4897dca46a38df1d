"""A base loaded through diffusers, with a user's own LoRA fused into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from backend.models.source import is_hub_id, read_config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_pipeline(name: str, base: str, dtype: torch.dtype = torch.float32, **parts: Any) -> Any:
    """The pipeline of diffusers' class `name`, on the CPU. Raises ValueError when the base is not there.

    parts  components to use instead of the base's own; None leaves one out.
    The autoencoder stays in fp32: it makes what is judged, and costs little beside the transformer.
    """
    import diffusers
    import transformers

    # their bars and notes on absent image processors would bury a run's own lines
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    if Path(base).is_dir() and not (Path(base) / "model_index.json").is_file():
        raise ValueError(f"model.base: {base} holds no model_index.json; give the folder of a diffusers pipeline")
    kinds = dtype if dtype == torch.float32 else {"default": dtype, "vae": torch.float32}
    try:
        return getattr(diffusers, name).from_pretrained(base, dtype=kinds, **parts)
    except OSError as error:
        raise ValueError(
            f"model.base: {base!r} cannot be loaded ({error}); give a pipeline folder, or a hub id that this machine "
            "may download (the bundled ones are 'shapes' of family sd3 and 'moving' of wan)"
        ) from error


def kind_of(base: str, default: str) -> str:
    """The pipeline class that the base's own index names, read from the hub if need be; `default` without an index."""
    from diffusers import DiffusionPipeline

    index = read_config(base, "model_index.json")
    if index is None and is_hub_id(base):
        try:
            index = DiffusionPipeline.load_config(base)
        except OSError:
            return default  # loading the pipeline will say what is wrong
    return str(index["_class_name"]) if index else default


def fuse_lora(pipeline: Any, file: str) -> None:
    """Add a LoRA's weights to the transformer's own. Raises ValueError when the file does not fit the base."""
    if not Path(file).exists():
        raise ValueError(f"model.lora: {file} does not exist; give a .safetensors file")
    try:
        pipeline.load_lora_weights(file, adapter_name="user")
    except (ValueError, RuntimeError, KeyError) as error:
        raise ValueError(f"model.lora: {file} does not fit this base ({error}); choose one made for it") from error
    if not getattr(pipeline.transformer, "peft_config", None):
        raise ValueError(f"model.lora: {file} has no layer of this base's transformer; choose one made for it")
    pipeline.fuse_lora(components=["transformer"], adapter_names=["user"])
    pipeline.unload_lora_weights()
