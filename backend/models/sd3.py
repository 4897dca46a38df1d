"""Stable Diffusion 3 and 3.5, and the bundled Shapes base of the same architecture, through diffusers' own modules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from backend.methods.settings import Settings
from backend.models.weights import FullModule, Lora, LoraModule, Tuning, kept, named_trained, tune
from backend.shapes.bundle import BASE as SHAPES_BASE
from backend.types import Weights

TARGETS = [
    "attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0",
    "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.to_add_out",
]  # fmt: skip
TIMESTEPS = 1000
DOWNSAMPLE = 8  # pixels a latent pixel, in every SD3 autoencoder and in the bundled one
HUB = {"in_channels": 16, "sample_size": 128}  # of the transformers of SD3 and SD3.5, medium and large
DECODE_BATCH = 64


@dataclass(frozen=True)
class SD3Conditioning:
    """embeds [P, L, D] and pooled [P, D'] of the prompts, and of the empty prompt ([1, ...]) for guidance."""

    embeds: Tensor
    pooled: Tensor
    empty_embeds: Tensor
    empty_pooled: Tensor

    def take(self, rows: Tensor) -> SD3Conditioning:
        return SD3Conditioning(self.embeds[rows], self.pooled[rows], self.empty_embeds, self.empty_pooled)


class SD3(Settings):
    """A StableDiffusion3Pipeline: by folder, by hub id, or `shapes` for the bundled one."""

    family: Literal["sd3"] = "sd3"
    base: str = Field("shapes", min_length=1, description="'shapes', a pipeline folder, or a hub id")
    resolution: int | None = Field(
        None, ge=32, le=2048, multiple_of=16, description="Side of a picture in pixels; empty = the base's own"
    )
    tuning: Tuning = Field(Lora(), description="What is trained")
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
        file = Path(self.folder()) / "transformer" / "config.json"
        found = json.loads(file.read_text()) if file.is_file() else HUB
        size = self.resolution // DOWNSAMPLE if self.resolution else int(found["sample_size"])
        return int(found["in_channels"]), size, size

    def load(self, device: torch.device, seed: int) -> SD3Policy:
        """The policy with fresh adapters. Raises ValueError when the base is not there."""
        return SD3Policy(self, _load_pipeline(self.folder()), device, seed)


def _load_pipeline(source: str) -> Any:
    import diffusers
    import transformers
    from diffusers import StableDiffusion3Pipeline

    # their bars and notes on absent image processors would bury a run's own lines
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    absent = {}
    if Path(source).is_dir():
        if not (Path(source) / "model_index.json").is_file():
            raise ValueError(f"model.base: {source} holds no model_index.json; give the folder of a diffusers pipeline")
        if not (Path(source) / "text_encoder_3").is_dir():
            absent = {"text_encoder_3": None, "tokenizer_3": None}
    try:
        return StableDiffusion3Pipeline.from_pretrained(source, **absent)
    except OSError as error:
        raise ValueError(
            f"model.base: {source!r} cannot be loaded ({error}); give 'shapes', a pipeline folder, or a hub id that "
            "this machine may download"
        ) from error


class SD3Policy:
    """The pipeline's modules as a velocity field over scaled latents [N, C, h, w]."""

    def __init__(self, settings: SD3, pipeline: Any, device: torch.device, seed: int) -> None:
        self.settings = settings
        self.device = device
        self.pipeline = pipeline.to(device)
        for part in (pipeline.vae, pipeline.text_encoder, pipeline.text_encoder_2, pipeline.text_encoder_3):
            if part is not None:
                part.requires_grad_(False).eval()
        pipeline.transformer.eval()
        self.tuned: LoraModule | FullModule = tune(pipeline.transformer, settings.tuning, TARGETS, seed)
        own = pipeline.transformer.config.sample_size
        size = settings.resolution // DOWNSAMPLE if settings.resolution else own
        self.latent_shape = (pipeline.transformer.config.in_channels, size, size)
        self.shift = float(pipeline.scheduler.config.shift)

    @property
    def module(self) -> nn.Module:
        return self.tuned.module

    def trained(self) -> dict[str, nn.Parameter]:
        return named_trained(self.module)

    @torch.no_grad()
    def encode(self, prompts: Sequence[str]) -> SD3Conditioning:
        """As the pipeline encodes them, each distinct text once."""
        distinct = list(dict.fromkeys(prompts))
        embeds, _, pooled, _ = self._encode([*distinct, ""])
        rows = torch.tensor([distinct.index(prompt) for prompt in prompts], device=self.device)
        return SD3Conditioning(embeds[rows], pooled[rows], embeds[-1:], pooled[-1:])

    def _encode(self, texts: list[str]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        encoded: tuple[Tensor, Tensor, Tensor, Tensor] = self.pipeline.encode_prompt(
            texts,
            None,
            None,
            device=self.device,
            do_classifier_free_guidance=False,
            max_sequence_length=self.settings.max_text_tokens,
        )
        return encoded

    def velocity(
        self,
        x: Tensor,
        sigma: Tensor,
        cond: SD3Conditioning,
        weights: Weights = "current",
        guidance: float | None = None,
    ) -> Tensor:
        """x [N, C, h, w], sigma [N] -> v = eps - x0 [N, C, h, w]; guided above 1; None is the setting."""
        embeds, pooled = cond.embeds, cond.pooled
        guidance = self.settings.guidance if guidance is None else guidance
        guided = guidance > 1
        if guided:
            x, sigma = torch.cat([x, x]), torch.cat([sigma, sigma])
            embeds = torch.cat([cond.empty_embeds.expand_as(embeds), embeds])
            pooled = torch.cat([cond.empty_pooled.expand_as(pooled), pooled])
        with self.tuned.using(weights) as transformer:
            v: Tensor = transformer(
                hidden_states=x,
                encoder_hidden_states=embeds,
                pooled_projections=pooled,
                timestep=sigma * TIMESTEPS,
                return_dict=False,
            )[0]
        if not guided:
            return v
        without, with_prompt = v.chunk(2)
        return without + guidance * (with_prompt - without)

    def track_old(self, decay: float) -> None:
        """old <- decay old + (1 - decay) current. Raises ValueError when no old weights are kept."""
        kept(self.tuned.old).track(decay)

    def decode(self, x0: Tensor) -> Tensor:
        """Scaled latents [N, C, h, w] -> frames [N, 1, 3, H, W] in 0..1, differentiable where x0 is."""
        vae = self.pipeline.vae
        latents = x0 / vae.config.scaling_factor + vae.config.shift_factor
        images = torch.cat([vae.decode(part, return_dict=False)[0] for part in latents.split(DECODE_BATCH)])
        return (images / 2 + 0.5).clamp(0, 1)[:, None]

    def encode_frames(self, frames: Tensor) -> Tensor:
        """Frames [N, 1, 3, H, W] in 0..1 -> scaled latents [N, C, h, w], means of the posterior, differentiable.

        Raises ValueError for frames of another size than the policy's.
        """
        side = DOWNSAMPLE * self.latent_shape[-1]
        if frames.shape[1:] != (1, 3, side, side):
            raise ValueError(
                f"frames: {list(frames.shape[1:])} are not one picture of 3 x {side} x {side}, which this model makes; "
                "set model.resolution to the pictures' size, or choose another base"
            )
        vae = self.pipeline.vae
        images = frames[:, 0].to(self.device) * 2 - 1
        means = torch.cat([vae.encode(part).latent_dist.mode() for part in images.split(DECODE_BATCH)])
        latents: Tensor = (means - vae.config.shift_factor) * vae.config.scaling_factor
        return latents
