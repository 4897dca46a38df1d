"""What every family of models shares: settings of its base, and the policy around diffusers' modules.

Shape legend
    P prompts, N latents, D... latent dimensions, F frames, H, W height and width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from backend.methods.settings import Settings
from backend.models import prompt_cache, source
from backend.models.access import check_access
from backend.models.pipeline import DTYPES, fuse_lora, kind_of, load_pipeline
from backend.models.prompt_cache import PromptCache
from backend.models.texts import Texts, at_work
from backend.models.weights import FullModule, Lora, LoraModule, Tuning, kept, named_trained, tune

BLOCKS = ("transformer_blocks", "single_transformer_blocks", "blocks")  # lists of a transformer's repeated layers


class Family(Settings):
    """Settings that every family has.

    pipelines     diffusers' classes that it loads, the default first
    text_parts    their components that only encode text
    lora_targets  linear layers that get adapters
    scheduler     the scheduler's config of a hub base that is not on this machine
    """

    pipelines: ClassVar[tuple[str, ...]] = ()
    text_parts: ClassVar[tuple[str, ...]] = ()
    lora_targets: ClassVar[tuple[str, ...]] = ()
    scheduler: ClassVar[dict[str, Any]] = {}

    family: str = ""
    base: str = Field(min_length=1, description="A pipeline folder, or a hub id")
    lora: str | None = Field(
        None, min_length=1, description="A LoRA file (.safetensors) that is fused into the base before training"
    )
    tuning: Tuning = Field(Lora(), description="What is trained")
    dtype: Literal["fp32", "bf16"] = Field(
        "fp32", description="Of the base's weights; adapters and the autoencoder are fp32 always"
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass: less memory, about a third more time"
    )
    compile: Literal["off", "inductor", "aot_eager"] = Field(
        "off",
        description="torch.compile the transformer's blocks: inductor is faster after a slow first step; aot_eager "
        "only traces, to find what cannot be compiled",
    )
    offload: bool = Field(
        False, description="The autoencoder and the text encoders wait in main memory between their uses"
    )
    tiling: bool = Field(False, description="The autoencoder works in overlapping tiles: less memory for large frames")
    prompt_cache: bool = Field(
        False, description="Keep encoded prompts on disk ($ESPALIER_CACHE/prompts), each encoded once for all runs"
    )
    release_text_encoders: bool = Field(
        False, description="Text encoders leave memory, and are loaded only for prompts that the cache lacks"
    )

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        if self.release_text_encoders and not self.prompt_cache:
            raise ValueError(
                "release_text_encoders: without prompt_cache they would be loaded for every step; turn it on as well"
            )
        if self.dtype == "bf16" and self.tuning.kind == "full":
            raise ValueError("dtype: bf16 weights are too coarse for full tuning's updates; use fp32, or tune a lora")
        return self

    def folder(self) -> str:
        """The base as diffusers takes it."""
        return self.base

    def latent_shape(self) -> tuple[int, ...]:
        """D... of a latent, without loading weights; a hub id that is not on this machine counts as a full-size one."""
        raise NotImplementedError

    def tokens(self) -> int:
        """Tokens that the transformer makes of a latent, in patches of 2 x 2."""
        *frames, height, width = self.latent_shape()[1:]
        return (frames[0] if frames else 1) * (height // 2) * (width // 2)

    def time_shift(self) -> float:
        """The shift of the base's own time grid, at this size."""
        found = source.read_config(self.folder(), "scheduler/scheduler_config.json")
        return source.time_shift(found or self.scheduler, self.tokens())

    def passes(self, guidance: float | None = None) -> int:
        """Passes through the transformer that one velocity costs a latent. guidance as in Policy.velocity."""
        return 2 if (self.cfg() if guidance is None else guidance) > 1 else 1

    def cfg(self) -> float:
        """The scale of classifier-free guidance; 1 is none."""
        raise NotImplementedError

    def takes_first_frame(self) -> bool:
        """Whether the base starts each video from a picture, as far as this machine can tell."""
        return False

    def first_frame_of_all(self) -> str | None:
        """The picture for prompts that have none of their own."""
        return None

    def check_access(self) -> None:
        """Raises ValueError, with the remedy, when this machine cannot have the base."""
        check_access(self.folder(), self.pipelines)

    def absent(self) -> dict[str, None]:
        """Components that this base does not have."""
        return {}

    def open(self) -> Any:
        """The pipeline on the CPU, with the user's LoRA in it, and without text encoders that are to be released."""
        name = self.pipeline_class()
        left_out = self.absent() | (dict.fromkeys(self.text_parts) if self.release_text_encoders else {})
        pipeline = load_pipeline(name, self.folder(), DTYPES[self.dtype], **left_out)
        if self.lora is not None:
            fuse_lora(pipeline, self.lora)
        return pipeline

    def pipeline_class(self) -> str:
        """Raises ValueError when the base is of another family."""
        name = kind_of(self.folder(), self.pipelines[0])
        if name not in self.pipelines:
            raise ValueError(
                f"model.base: {self.base!r} is a {name}, and family {self.family} loads {' or '.join(self.pipelines)}; "
                "set model.family to the base's own"
            )
        return name

    def open_texts(self, transformer: Any) -> Any:
        """A pipeline that can encode prompts, around a transformer that is there already."""
        parts = self.absent() | {"transformer": transformer, "vae": None}
        return load_pipeline(self.pipelines[0], self.folder(), DTYPES[self.dtype], **parts)


class FamilyPolicy:
    """A pipeline's modules as a velocity field; a family adds velocity, encode, decode and encode_frames."""

    def __init__(self, settings: Family, pipeline: Any, device: torch.device, seed: int) -> None:
        self.settings = settings
        self.device = device
        self.pipeline = pipeline
        self.latent_shape = settings.latent_shape()
        self.dtype = DTYPES[settings.dtype]
        self._texts = self._open_texts(pipeline)
        transformer = pipeline.transformer.to(device).eval()
        if settings.gradient_checkpointing:
            transformer.enable_gradient_checkpointing()
        pipeline.vae.requires_grad_(False).eval()
        if not settings.offload:
            pipeline.vae.to(device)
        if settings.tiling:
            pipeline.vae.enable_tiling()
        self.tuned: LoraModule | FullModule = tune(transformer, settings.tuning, list(settings.lora_targets), seed)
        if settings.compile != "off":
            for block in (block for name in BLOCKS for block in getattr(transformer, name, ())):
                block.compile(backend=settings.compile)

    def _open_texts(self, pipeline: Any) -> Texts:
        settings, cache = self.settings, None
        if settings.prompt_cache:
            facts = settings.family, source.text_identity(settings.folder()), settings.dtype, self.text_facts()
            cache = PromptCache(prompt_cache.folder(), facts)
        release = settings.release_text_encoders

        def load() -> Any:
            return settings.open_texts(pipeline.transformer) if release else self.text_pipeline(pipeline)

        return Texts(load, self.encode_texts, self.device, cache, settings.offload, release)

    def text_facts(self) -> object:
        """Settings that change what a text is encoded to."""
        return getattr(self.settings, "max_text_tokens", None)

    def text_pipeline(self, pipeline: Any) -> Any:
        """The pipeline whose encode_prompt encodes texts."""
        return pipeline

    def encode_texts(self, pipeline: Any, texts: list[str]) -> tuple[Tensor, ...]:
        """N texts -> tensors [N, ...], as the pipeline encodes them."""
        raise NotImplementedError

    @property
    def module(self) -> nn.Module:
        return self.tuned.module

    def trained(self) -> dict[str, nn.Parameter]:
        return named_trained(self.module)

    def track_old(self, decay: float) -> None:
        """old <- decay old + (1 - decay) current. Raises ValueError when no old weights are kept."""
        kept(self.tuned.old).track(decay)

    def negative_prompt(self) -> str | None:
        """What guidance leads prompts away from that name nothing themselves; None where no second pass guides."""
        return None

    def condition(
        self, prompts: Sequence[str], first_frames: Sequence[str | None], negative_prompts: Sequence[str | None] = ()
    ) -> Any:
        """encode(prompts); an image-to-video base starts from the pictures (files, one a prompt or None).

        negative_prompts  what guidance above 1 leads each prompt away from; None, and all where none is given: the
                          same for all
        """
        return self.encode(prompts)

    def encode(self, prompts: Sequence[str]) -> Any:
        """The conditioning of P prompts, as the pipeline encodes them."""
        raise NotImplementedError

    def encode_ahead(self, prompts: Iterable[str], negative_prompts: Sequence[str | None] = ()) -> None:
        """Fill the cache for a whole run, so that text encoders are loaded once and gone before training."""
        self._texts.fill([*prompts, *self._beside(()), *self._beside(negative_prompts)])

    def _beside(self, negative_prompts: Sequence[str | None]) -> list[str]:
        """Texts that guidance leads away from: one for all, or one a prompt where some have their own.

        Without guidance a prompt's own is of no use, and is not encoded.
        """
        common = self.negative_prompt()
        if common is None:
            return []
        if self.settings.cfg() <= 1 or all(own is None for own in negative_prompts):
            return [common]
        return [common if own is None else own for own in negative_prompts]

    def _distinct(
        self, prompts: Sequence[str], negative_prompts: Sequence[str | None] = ()
    ) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
        """Tensors of each distinct text; the row of each prompt, Long[P]; of what it is led away from, Long[P or 1]."""
        distinct, others = list(dict.fromkeys(prompts)), self._beside(negative_prompts)
        beside = list(dict.fromkeys(others))
        encoded = self._texts([*distinct, *beside])
        rows = [distinct.index(prompt) for prompt in prompts]
        negative = [len(distinct) + beside.index(other) for other in others]
        return encoded, torch.tensor(rows, device=self.device), torch.tensor(negative, device=self.device)

    @contextmanager
    def _autoencoder(self, x: Tensor) -> Iterator[Any]:
        """The autoencoder on the device; it stays there when x carries gradients, since backward needs its weights."""
        vae = self.pipeline.vae
        differentiated = torch.is_grad_enabled() and x.requires_grad
        with at_work([vae], self.device, self.settings.offload and not differentiated):
            yield vae.to(self.device) if differentiated else vae


def of_rows(negative: Tensor, rows: Tensor) -> Tensor:
    """The rows (Long[N]) of what prompts are led away from, [P, ...]; [1, ...] is of all prompts, and stays one."""
    return negative if len(negative) == 1 else negative[rows]


def guide(v: Tensor, guidance: float) -> Tensor:
    """Velocities [2 N, D...], first without and then with the prompt -> guided ones [N, D...]."""
    without, with_prompt = v.chunk(2)
    return without + guidance * (with_prompt - without)
