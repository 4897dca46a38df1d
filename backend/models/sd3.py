"""Stable Diffusion 3 and 3.5, and the bundled Shapes base of the same architecture, through diffusers' own modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.models.autoencoder import check_pictures, decode_pictures, encode_pictures
from backend.models.family import Family, FamilyPolicy, guide, of_rows
from backend.models.source import read_config
from backend.shapes.bundle import BASE as SHAPES_BASE
from backend.types import Weights

TIMESTEPS = 1000
DOWNSAMPLE = 8  # pixels a latent pixel, in every SD3 autoencoder and in the bundled one
HUB = {"in_channels": 16, "sample_size": 128}  # of the transformers of SD3 and SD3.5, medium and large


@dataclass(frozen=True)
class SD3Conditioning:
    """embeds [P, L, D] and pooled [P, D'] of the prompts.

    negative_embeds, negative_pooled  of the empty prompt, [1, ...], or of what each prompt is led away from, [P, ...]
    """

    embeds: Tensor
    pooled: Tensor
    negative_embeds: Tensor
    negative_pooled: Tensor

    def take(self, rows: Tensor) -> SD3Conditioning:
        negative = (of_rows(one, rows) for one in (self.negative_embeds, self.negative_pooled))
        return SD3Conditioning(self.embeds[rows], self.pooled[rows], *negative)


class SD3(Family):
    """A StableDiffusion3Pipeline: by folder, by hub id, or `shapes` for the bundled one."""

    pipelines: ClassVar[tuple[str, ...]] = ("StableDiffusion3Pipeline",)
    text_parts: ClassVar[tuple[str, ...]] = ("text_encoder", "text_encoder_2", "text_encoder_3")
    lora_targets: ClassVar[tuple[str, ...]] = (
        "attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0",
        "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.to_add_out",
    )  # fmt: skip
    scheduler: ClassVar[dict[str, Any]] = {"shift": 3.0}

    family: Literal["sd3"] = "sd3"
    base: str = Field("shapes", min_length=1, description="'shapes', a pipeline folder, or a hub id")
    resolution: int | None = Field(
        None, ge=32, le=2048, multiple_of=16, description="Side of a picture in pixels; empty = the base's own"
    )
    guidance: float = Field(
        1.0, ge=1, le=30, description="Classifier-free guidance in rollouts and training; 1 is none and half the cost"
    )
    max_text_tokens: int = Field(
        0, ge=0, le=512, description="Length of the T5 prompt; the bundled base has no T5 and was trained with 0"
    )

    def folder(self) -> str:
        return str(SHAPES_BASE) if self.base == "shapes" else self.base

    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a latent, without loading weights; a hub id counts as a full-size SD3."""
        found = read_config(self.folder(), "transformer/config.json") or HUB
        size = self.resolution // DOWNSAMPLE if self.resolution else int(found["sample_size"])
        return int(found["in_channels"]), size, size

    def cfg(self) -> float:
        return self.guidance

    def absent(self) -> dict[str, None]:
        """SD3 runs without its T5, which a folder may leave out."""
        folder = Path(self.folder())
        without_t5 = folder.is_dir() and not (folder / "text_encoder_3").is_dir()
        return {"text_encoder_3": None, "tokenizer_3": None} if without_t5 else {}

    def load(self, device: torch.device, seed: int) -> SD3Policy:
        """The policy with fresh adapters. Raises ValueError when the base is not there."""
        return SD3Policy(self, self.open(), device, seed)


class SD3Policy(FamilyPolicy):
    """The pipeline's modules as a velocity field over scaled latents [N, C, h, w]."""

    settings: SD3

    def encode_texts(self, pipeline: Any, texts: list[str]) -> tuple[Tensor, ...]:
        embeds, _, pooled, _ = pipeline.encode_prompt(
            texts,
            None,
            None,
            device=self.device,
            do_classifier_free_guidance=False,
            max_sequence_length=self.settings.max_text_tokens,
        )
        return embeds, pooled

    def negative_prompt(self) -> str:
        return ""

    def condition(
        self, prompts: Sequence[str], first_frames: Sequence[str | None], negative_prompts: Sequence[str | None] = ()
    ) -> SD3Conditioning:
        return self.encode(prompts, negative_prompts)

    @torch.no_grad()
    def encode(self, prompts: Sequence[str], negative_prompts: Sequence[str | None] = ()) -> SD3Conditioning:
        """As the pipeline encodes them, each distinct text once.

        negative_prompts  what guidance leads each prompt away from; None, and all where none is given: the empty prompt
        """
        (embeds, pooled), rows, negative = self._distinct(prompts, negative_prompts)
        return SD3Conditioning(embeds[rows], pooled[rows], embeds[negative], pooled[negative])

    def velocity(
        self,
        x: Tensor,
        sigma: Tensor,
        cond: SD3Conditioning,
        weights: Weights = "current",
        guidance: float | None = None,
    ) -> Tensor:
        """x [N, C, h, w], sigma [N] -> v = eps - x0 [N, C, h, w]; guided above 1; None is the setting."""
        embeds, pooled, latents = cond.embeds, cond.pooled, x
        guidance = self.settings.guidance if guidance is None else guidance
        guided = guidance > 1
        if guided:
            latents, sigma = torch.cat([x, x]), torch.cat([sigma, sigma])
            embeds = torch.cat([cond.negative_embeds.expand_as(embeds), embeds])
            pooled = torch.cat([cond.negative_pooled.expand_as(pooled), pooled])
        with self.tuned.using(weights) as transformer:
            v: Tensor = transformer(
                hidden_states=latents.to(self.dtype),
                encoder_hidden_states=embeds,
                pooled_projections=pooled,
                timestep=sigma * TIMESTEPS,
                return_dict=False,
            )[0].to(x)
        return guide(v, guidance) if guided else v

    def decode(self, x0: Tensor) -> Tensor:
        """Scaled latents [N, C, h, w] -> frames [N, 1, 3, H, W] in 0..1, differentiable where x0 is."""
        with self._autoencoder(x0) as vae:
            return decode_pictures(vae, x0)

    def encode_frames(self, frames: Tensor) -> Tensor:
        """Frames [N, 1, 3, H, W] in 0..1 -> scaled latents [N, C, h, w], means of the posterior, differentiable.

        Raises ValueError for frames of another size than the policy's.
        """
        check_pictures(frames, DOWNSAMPLE * self.latent_shape[-1])
        with self._autoencoder(frames) as vae:
            return encode_pictures(vae, frames.to(self.device))
