"""Wan2.1, text-to-video and image-to-video, through diffusers' own modules.

Shape legend
    N latents [N, C, f, h, w] of videos of F = 4 (f - 1) + 1 frames, H = 8 h and W = 8 w pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from backend.models import prompt_cache, source
from backend.models.autoencoder import decode_videos, encode_videos
from backend.models.family import Family, FamilyPolicy, guide, of_rows
from backend.models.first_frames import FirstFrames
from backend.models.prompt_cache import PromptCache
from backend.models.source import read_config
from backend.moving.bundle import BASE as MOVING_BASE
from backend.types import Weights

TIMESTEPS = 1000
TEXT_TO_VIDEO, IMAGE_TO_VIDEO = "WanPipeline", "WanImageToVideoPipeline"
HUB = {"z_dim": 16, "scale_factor_temporal": 4, "scale_factor_spatial": 8}  # of Wan2.1's autoencoder


@dataclass(frozen=True)
class WanConditioning:
    """UMT5 embeds [P, L, D] of the prompts.

    negative_embeds  of the setting's negative prompt, [1, L, D], or of what each prompt is led away from, [P, L, D]
    first_frame   [P, C + 4, f, h, w], what an image-to-video transformer sees beside the latent; None for text-to-video
    image_embeds  [P, L', D'] of these pictures, where the transformer takes them
    """

    embeds: Tensor
    negative_embeds: Tensor
    first_frame: Tensor | None = None
    image_embeds: Tensor | None = None

    def take(self, rows: Tensor) -> WanConditioning:
        frame, image = (None if one is None else one[rows] for one in (self.first_frame, self.image_embeds))
        negative = of_rows(self.negative_embeds, rows)
        return WanConditioning(self.embeds[rows], negative, frame, image)


class Wan(Family):
    """A WanPipeline or WanImageToVideoPipeline of Wan2.1, by folder or hub id (the -Diffusers ones)."""

    pipelines: ClassVar[tuple[str, ...]] = (TEXT_TO_VIDEO, IMAGE_TO_VIDEO)
    text_parts: ClassVar[tuple[str, ...]] = ("text_encoder",)
    lora_targets: ClassVar[tuple[str, ...]] = ("to_q", "to_k", "to_v", "to_out.0", "add_k_proj", "add_v_proj")
    scheduler: ClassVar[dict[str, Any]] = {"flow_shift": 3.0}

    family: Literal["wan"] = "wan"
    base: str = Field(
        "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", min_length=1, description="'moving', a pipeline folder, or a hub id"
    )
    dtype: Literal["fp32", "bf16"] = Field(
        "bf16", description="Of the base's weights; adapters and the autoencoder are fp32 always"
    )
    prompt_cache: bool = Field(
        True, description="Keep encoded prompts on disk ($ESPALIER_CACHE/prompts), each encoded once for all runs"
    )
    height: int = Field(240, ge=16, le=1280, multiple_of=16, description="Pixels (Flow-GRPO 240)")
    width: int = Field(416, ge=16, le=1280, multiple_of=16, description="Pixels (Flow-GRPO 416)")
    frames: int = Field(33, ge=1, le=257, description="Frames of a video, 4 k + 1 (Flow-GRPO 33; Wan2.1 81)")
    first_frame: str | None = Field(
        None,
        min_length=1,
        description="Picture that an image-to-video base starts a video from, where its prompt gives no first_frame",
    )
    guidance: float = Field(
        4.5,
        ge=1,
        le=30,
        description="Classifier-free guidance (Flow-GRPO 4.5); 1 is none and half the cost",
    )
    negative_prompt: str = Field("", description="What guidance leads away from, where a prompt has no negative_prompt")
    max_text_tokens: int = Field(512, ge=1, le=512, description="Length of the prompt (Wan2.1 512)")

    @field_validator("frames")
    @classmethod
    def _check_frames(cls, frames: int) -> int:
        if frames % 4 != 1:
            near = frames // 4 * 4 + 1
            raise ValueError(f"the autoencoder makes 4 k + 1 frames, got {frames}; use {near} or {near + 4}")
        return frames

    def folder(self) -> str:
        return str(MOVING_BASE) if self.base == "moving" else self.base

    def latent_shape(self) -> tuple[int, int, int, int]:
        vae = HUB | (read_config(self.folder(), "vae/config.json") or {})  # the published one leaves out what is usual
        temporal, spatial = int(vae["scale_factor_temporal"]), int(vae["scale_factor_spatial"])
        return int(vae["z_dim"]), (self.frames - 1) // temporal + 1, self.height // spatial, self.width // spatial

    def cfg(self) -> float:
        return self.guidance

    def takes_first_frame(self) -> bool:
        """By the base's own index; a hub id that is not on this machine tells by its name."""
        index = read_config(self.folder(), "model_index.json")
        return index["_class_name"] == IMAGE_TO_VIDEO if index else "i2v" in self.base.lower()

    def first_frame_of_all(self) -> str | None:
        return self.first_frame

    def load(self, device: torch.device, seed: int) -> WanPolicy:
        """The policy with fresh adapters. Raises ValueError when the base is not there, or takes no first frame."""
        pipeline = self.open()
        if getattr(pipeline, "transformer_2", None) is not None or pipeline.config.expand_timesteps:
            raise ValueError(f"model.base: {self.base!r} is of Wan2.2, whose two stages are not trained; use Wan2.1")
        if self.first_frame is not None and type(pipeline).__name__ != IMAGE_TO_VIDEO:
            raise ValueError(f"model.first_frame: {self.base!r} is a {type(pipeline).__name__}; leave it empty")
        return WanPolicy(self, pipeline, device, seed)


class WanPolicy(FamilyPolicy):
    """The pipeline's modules as a velocity field over scaled latents [N, C, f, h, w]."""

    settings: Wan

    def __init__(self, settings: Wan, pipeline: Any, device: torch.device, seed: int) -> None:
        super().__init__(settings, pipeline, device, seed)
        self._first_frames: FirstFrames | None = None
        if type(pipeline).__name__ == IMAGE_TO_VIDEO:
            cache = PromptCache(prompt_cache.folder(), self._frame_facts()) if settings.prompt_cache else None
            self._first_frames = FirstFrames(self._encode_first_frame, device, cache)

    def text_pipeline(self, pipeline: Any) -> Any:
        """A text-to-video one in either case: its cleaning of prompts works without ftfy."""
        from diffusers import WanPipeline

        parts = {name: getattr(pipeline, name) for name in ("tokenizer", "text_encoder", "scheduler")}
        return WanPipeline(vae=None, transformer=None, **parts)

    def encode_texts(self, pipeline: Any, texts: list[str]) -> tuple[Tensor, ...]:
        embeds, _ = pipeline.encode_prompt(
            texts,
            do_classifier_free_guidance=False,
            max_sequence_length=self.settings.max_text_tokens,
            device=self.device,
        )
        return (embeds.to(self.dtype),)

    def _frame_facts(self) -> tuple[object, ...]:
        """All that decides what a first frame is encoded to, besides its content."""
        settings = self.settings
        encoders = source.identity(settings.folder(), ("vae", "image_encoder", "image_processor"))
        size = settings.height, settings.width, settings.frames
        return settings.family, "first frame", encoders, settings.dtype, settings.tiling, size

    def _encode_first_frame(self, picture: Any) -> tuple[Tensor, ...]:
        """An RGB picture -> what the transformer sees, [1, C + 4, f, h, w] and, where it takes them, [1, L', D']."""
        settings, pipeline = self.settings, self.pipeline
        size = {"height": settings.height, "width": settings.width}
        pixels = pipeline.video_processor.preprocess(picture, **size).to(self.device, torch.float32)
        with self._autoencoder(pixels):
            _, seen = pipeline.prepare_latents(
                pixels, 1, self.latent_shape[0], num_frames=settings.frames, dtype=torch.float32, device=self.device,
                latents=torch.zeros(1, *self.latent_shape), **size,
            )  # fmt: skip
        if pipeline.transformer.config.image_dim is None:
            return (seen,)
        pipeline.image_encoder.requires_grad_(False).to(self.device)
        embeds = pipeline.encode_image(picture, self.device).to(self.dtype)
        pipeline.image_encoder.to("cpu")
        return seen, embeds

    def negative_prompt(self) -> str:
        return self.settings.negative_prompt

    def condition(
        self, prompts: Sequence[str], first_frames: Sequence[str | None], negative_prompts: Sequence[str | None] = ()
    ) -> WanConditioning:
        return self.encode(prompts, first_frames, negative_prompts)

    @torch.no_grad()
    def encode(
        self,
        prompts: Sequence[str],
        first_frames: Sequence[str | None] = (),
        negative_prompts: Sequence[str | None] = (),
    ) -> WanConditioning:
        """As the pipeline encodes them, each distinct text and picture once.

        first_frames      files of an image-to-video base, one a prompt
        negative_prompts  what guidance leads each prompt away from
        None, and all where none is given: the setting's. Raises ValueError where a video has no first frame.
        """
        (embeds,), rows, negative = self._distinct(prompts, negative_prompts)
        if self._first_frames is None:
            return WanConditioning(embeds[rows], embeds[negative])
        files = [one or self.settings.first_frame for one in first_frames or [None] * len(prompts)]
        if None in files:
            raise ValueError(
                f"model.first_frame: {self.settings.base!r} starts from a picture, and the prompt "
                f"{prompts[files.index(None)]!r} has none; give one, or a first_frame beside each prompt"
            )
        seen, *image = self._first_frames([file for file in files if file is not None])
        return WanConditioning(embeds[rows], embeds[negative], seen, image[0] if image else None)

    def velocity(
        self,
        x: Tensor,
        sigma: Tensor,
        cond: WanConditioning,
        weights: Weights = "current",
        guidance: float | None = None,
    ) -> Tensor:
        """x [N, C, f, h, w], sigma [N] -> v = eps - x0 of the same shape; guided above 1; None is the setting."""
        embeds, image, latents = cond.embeds, cond.image_embeds, x
        guidance = self.settings.guidance if guidance is None else guidance
        guided = guidance > 1
        if cond.first_frame is not None:
            latents = torch.cat([x, cond.first_frame.to(x)], dim=1)
        if guided:
            latents, sigma = torch.cat([latents, latents]), torch.cat([sigma, sigma])
            embeds = torch.cat([cond.negative_embeds.expand_as(embeds), embeds])
            image = None if image is None else torch.cat([image, image])
        with self.tuned.using(weights) as transformer:
            v: Tensor = transformer(
                hidden_states=latents.to(self.dtype),
                timestep=sigma * TIMESTEPS,
                encoder_hidden_states=embeds,
                encoder_hidden_states_image=image,
                return_dict=False,
            )[0].to(x)
        return guide(v, guidance) if guided else v

    def decode(self, x0: Tensor) -> Tensor:
        """Scaled latents [N, C, f, h, w] -> frames [N, F, 3, H, W] in 0..1, differentiable where x0 is."""
        with self._autoencoder(x0) as vae:
            return decode_videos(vae, x0)

    def encode_frames(self, frames: Tensor) -> Tensor:
        """Frames [N, F, 3, H, W] in 0..1 -> scaled latents [N, C, f, h, w]. Raises ValueError for another size."""
        wanted = [self.settings.frames, 3, self.settings.height, self.settings.width]
        if list(frames.shape[1:]) != wanted:
            raise ValueError(
                f"frames: {list(frames.shape[1:])} are not the {wanted} that this model makes; set model.frames, "
                "model.height and model.width to the videos' size"
            )
        with self._autoencoder(frames) as vae:
            return encode_videos(vae, frames.to(self.device))
