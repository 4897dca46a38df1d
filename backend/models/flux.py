"""FLUX.1 through diffusers' own modules: packed latents, embedded guidance, a time shift that grows with the size.

Shape legend
    N latents [N, C, h, w] with C = 16, which the transformer sees as h/2 w/2 tokens of 4 C numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.models.autoencoder import check_pictures, decode_pictures, encode_pictures
from backend.models.family import Family, FamilyPolicy
from backend.models.source import read_config
from backend.types import Weights

PATCH = 2
CHANNELS = 64  # of a token, in the transformers of FLUX.1
LEVELS = 4  # of its autoencoder, which halves the size between them


@dataclass(frozen=True)
class FluxConditioning:
    """T5 embeds [P, L, D] and pooled CLIP embeddings [P, D'] of the prompts."""

    embeds: Tensor
    pooled: Tensor

    def take(self, rows: Tensor) -> FluxConditioning:
        return FluxConditioning(self.embeds[rows], self.pooled[rows])


class Flux(Family):
    """A FluxPipeline (FLUX.1-dev or FLUX.1-schnell), by folder or hub id."""

    pipelines: ClassVar[tuple[str, ...]] = ("FluxPipeline",)
    text_parts: ClassVar[tuple[str, ...]] = ("text_encoder", "text_encoder_2")
    lora_targets: ClassVar[tuple[str, ...]] = (
        "attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0",
        "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.to_add_out",
        "ff.net.0.proj", "ff.net.2", "ff_context.net.0.proj", "ff_context.net.2",
    )  # fmt: skip
    scheduler: ClassVar[dict[str, Any]] = {"use_dynamic_shifting": True}

    family: Literal["flux"] = "flux"
    base: str = Field("black-forest-labs/FLUX.1-dev", min_length=1, description="A pipeline folder, or a hub id")
    dtype: Literal["fp32", "bf16"] = Field(
        "bf16", description="Of the base's weights; adapters and the autoencoder are fp32 always"
    )
    prompt_cache: bool = Field(
        True, description="Keep encoded prompts on disk ($ESPALIER_CACHE/prompts), each encoded once for all runs"
    )
    resolution: int = Field(
        720, ge=16, le=2048, multiple_of=16, description="Side of a picture in pixels (BranchGRPO, DanceGRPO 720)"
    )
    guidance: float = Field(
        3.5,
        ge=0,
        le=30,
        description="Guidance that the transformer is told, in rollouts and in training; it costs nothing "
        "(FLUX.1-dev 3.5; FLUX.1-schnell takes none)",
    )
    max_text_tokens: int = Field(512, ge=1, le=512, description="Length of the T5 prompt (FLUX.1-dev 512)")

    def latent_shape(self) -> tuple[int, int, int]:
        transformer = read_config(self.base, "transformer/config.json") or {"in_channels": CHANNELS}
        size = self.resolution // self.downsample()
        return int(transformer["in_channels"]) // PATCH**2, size, size

    def downsample(self) -> int:
        """Pixels a latent pixel."""
        vae = read_config(self.base, "vae/config.json")
        return int(2 ** ((len(vae["block_out_channels"]) if vae else LEVELS) - 1))

    def cfg(self) -> float:
        """None: its guidance is an input of the transformer."""
        return 1.0

    def load(self, device: torch.device, seed: int) -> FluxPolicy:
        """The policy with fresh adapters. Raises ValueError when the base is not there."""
        return FluxPolicy(self, self.open(), device, seed)


class FluxPolicy(FamilyPolicy):
    """The pipeline's modules as a velocity field over scaled latents [N, C, h, w]."""

    settings: Flux

    def encode_texts(self, pipeline: Any, texts: list[str]) -> tuple[Tensor, ...]:
        embeds, pooled, _ = pipeline.encode_prompt(
            texts, device=self.device, max_sequence_length=self.settings.max_text_tokens
        )
        return embeds, pooled

    @torch.no_grad()
    def encode(self, prompts: Sequence[str]) -> FluxConditioning:
        """As the pipeline encodes them, each distinct text once."""
        (embeds, pooled), rows, _ = self._distinct(prompts)
        return FluxConditioning(embeds[rows], pooled[rows])

    def velocity(
        self,
        x: Tensor,
        sigma: Tensor,
        cond: FluxConditioning,
        weights: Weights = "current",
        guidance: float | None = None,
    ) -> Tensor:
        """x [N, C, h, w], sigma [N] -> v = eps - x0 [N, C, h, w].

        guidance is of classifier-free guidance, which FLUX.1 has no use for: None and 1 are the same field, the one at
        the setting's embedded guidance, since that is the field the model samples with. Raises ValueError above 1.
        """
        if guidance is not None and guidance != 1:
            raise ValueError(f"guidance: FLUX.1 is not guided by a second pass, got {guidance}; set model.guidance")
        height, width = x.shape[-2] // PATCH, x.shape[-1] // PATCH
        told = self.pipeline.transformer.config.guidance_embeds
        with self.tuned.using(weights) as transformer:
            v: Tensor = transformer(
                hidden_states=pack(x).to(self.dtype),
                timestep=sigma,
                guidance=x.new_full((len(x),), self.settings.guidance, dtype=torch.float32) if told else None,
                pooled_projections=cond.pooled,
                encoder_hidden_states=cond.embeds,
                txt_ids=x.new_zeros(cond.embeds.shape[1], 3, dtype=self.dtype),
                img_ids=positions(height, width).to(x.device, self.dtype),
                return_dict=False,
            )[0].to(x)
        return unpack(v, height, width)

    def decode(self, x0: Tensor) -> Tensor:
        """Scaled latents [N, C, h, w] -> frames [N, 1, 3, H, W] in 0..1, differentiable where x0 is."""
        with self._autoencoder(x0) as vae:
            return decode_pictures(vae, x0)

    def encode_frames(self, frames: Tensor) -> Tensor:
        """Frames [N, 1, 3, H, W] in 0..1 -> scaled latents [N, C, h, w]. Raises ValueError for another size."""
        check_pictures(frames, self.settings.resolution)
        with self._autoencoder(frames) as vae:
            return encode_pictures(vae, frames.to(self.device))


def pack(x: Tensor) -> Tensor:
    """[N, C, 2 a, 2 b] -> tokens [N, a b, 4 C], each a patch of 2 x 2."""
    num, channels, height, width = x.shape
    patches = x.view(num, channels, height // PATCH, PATCH, width // PATCH, PATCH).permute(0, 2, 4, 1, 3, 5)
    return patches.reshape(num, -1, channels * PATCH**2)


def unpack(tokens: Tensor, height: int, width: int) -> Tensor:
    """Tokens [N, a b, 4 C] with a = height, b = width -> [N, C, 2 a, 2 b]."""
    num, _, channels = tokens.shape
    patches = tokens.view(num, height, width, channels // PATCH**2, PATCH, PATCH).permute(0, 3, 1, 4, 2, 5)
    return patches.reshape(num, -1, height * PATCH, width * PATCH)


def positions(height: int, width: int) -> Tensor:
    """(0, row, column) of each token, [a b, 3]."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).view(-1, 3)
