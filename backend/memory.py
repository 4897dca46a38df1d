"""What a run will need of a device's memory, estimated from configurations before it is loaded (docs/models.md)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from backend.config import RunConfig
from backend.device import peak_memory
from backend.models.sizes import Size, beside, size_of
from backend.models.source import read_config
from backend.models.weights import Lora
from backend.types import Plan

BYTES = {"fp32": 4, "bf16": 2}
ADAM = 2  # moments of each trained weight, fp32 like the weight and its gradient
# Units of D numbers that one token leaves in a block for the backward pass, beside F: in fp32, and what bf16 adds for
# the fp32 copies that adapters and norms make. Measured (tests/backend/test_memory.py).
KEPT = {"sd3": (8.0, 6.0), "flux": (11.5, 11.0), "wan": (15.0, 17.0)}
PASSING = 8  # units of D of a block without gradient, beside 2 F: input, queries, keys, values, attention, output
CLIP_TOKENS = 77  # of SD3's text beside T5's
DECODER_FLOATS = 640  # a pixel at full size in the autoencoder's last stage: five maps of 128 channels


@dataclass(frozen=True)
class Memory:
    """Bytes on one device at the peak of a training step; rewards' own models are not counted.

    base      the denoiser's weights, and a reference copy where all of them are tuned
    beside    autoencoder and text encoders, where they stay on the device
    trained   adapters (or weights) with gradients and Adam's moments, old weights, moving average
    training  activations of one micro-batch;  sampling  of one forward of a rollout;  decoding  of samples
    """

    parameters: int
    trained_parameters: int
    base: int
    beside: int
    trained: int
    training: int
    sampling: int
    decoding: int

    @property
    def total(self) -> int:
        return self.base + self.beside + self.trained + max(self.training, self.sampling, self.decoding)

    def record(self) -> dict[str, int]:
        return asdict(self) | {"total": self.total}


def estimate(config: RunConfig, plan: Plan) -> Memory | None:
    """None where the base's configuration is neither on this machine nor known by its public id."""
    model = config.model
    size = size_of(model.family, model.folder())
    if size is None:
        return None
    lora = model.tuning if isinstance(model.tuning, Lora) else None
    trained = size.parameters if lora is None else lora.rank * size.adapted
    copies = 2 + ADAM + config.method.keeps_old + (config.optimizer.ema_decay is not None)
    base = BYTES[model.dtype] * size.parameters * (1 if lora else 2)
    level = config.prompts.per_step // config.processes * max(plan.widths[:-1])
    rows = model.passes() * min(config.sampling.micro_batch, level)
    batch = model.passes() * min(config.method.micro_batch, config.prompts.per_step * max(plan.widths))
    return Memory(
        parameters=size.parameters,
        trained_parameters=trained,
        base=base,
        beside=_beside(config),
        trained=4 * trained * (copies - (0 if lora else 1)),
        training=batch * kept_bytes(size, model, lora is not None),
        sampling=rows * tokens(model) * (PASSING * size.width + 2 * size.feed_forward) * BYTES[model.dtype],
        decoding=0 if _is_bundled(config) else 4 * DECODER_FLOATS * _pixels(model),
    )


def facts(config: RunConfig) -> dict[str, str]:
    """The estimate, as a run records it when it starts."""
    found = estimate(config, config.method.plan(0, config.grid()))
    return {} if found is None else {"memory": f"{found.total / 1e9:.2f} GB estimated for a device"}


def of_step(config: RunConfig, device: torch.device) -> dict[str, float]:
    """What this process has held at most so far, in GB, and where it is known the estimate beside it."""
    found = estimate(config, config.method.plan(0, config.grid()))
    estimated = {} if found is None else {"memory/estimate": found.total / 1e9}
    return {"memory/peak": peak_memory(device) / 1e9} | estimated


def kept_bytes(size: Size, model: Any, adapters: bool = True) -> int:
    """What one latent's forward leaves for the backward pass, without guidance; with gradient checkpointing the inputs
    of all blocks, and all of one block."""
    plain, cast = KEPT[model.family]
    units = plain + size.feed_forward / size.width + (cast if model.dtype == "bf16" and adapters else 0)
    units = size.blocks + 1 + units if model.gradient_checkpointing else size.blocks * units
    return int(tokens(model) * size.width * units * BYTES[model.dtype])


def tokens(model: Any) -> int:
    """Tokens that pass the blocks: those of the latent, and of the text where both are one stream of attention."""
    if model.family == "wan":
        return int(model.tokens())
    clip = read_config(model.folder(), "text_encoder/config.json") or {"max_position_embeddings": CLIP_TOKENS}
    text = model.max_text_tokens + (int(clip["max_position_embeddings"]) if model.family == "sd3" else 0)
    return int(model.tokens()) + text


def _is_bundled(config: RunConfig) -> bool:
    """Bases of this package: the parts beside their transformers are too small to count."""
    return config.model.folder() != config.model.base


def _beside(config: RunConfig) -> int:
    model = config.model
    if model.offload or _is_bundled(config):
        return 0
    encoders, autoencoder = beside(model.family, model.folder())
    return 4 * autoencoder + (0 if model.release_text_encoders else BYTES[model.dtype] * encoders)


def _pixels(model: Any) -> int:
    """Of a frame; a video is decoded a few frames at a time, which share the largest maps."""
    *_, height, width = model.latent_shape()
    return 64 * int(height) * int(width) * (4 if model.family == "wan" else 1)
