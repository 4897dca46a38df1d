"""Prompts to embeddings: with or without a cache, and with text encoders that rest or leave between uses."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from backend.models import prompt_cache
from backend.models.prompt_cache import PromptCache

Encode = Callable[[Any, list[str]], tuple[Tensor, ...]]


@contextmanager
def at_work(modules: Sequence[nn.Module], device: torch.device, resting: bool) -> Iterator[None]:
    """Modules that rest in main memory are on the device inside this context."""
    for module in modules if resting else ():
        module.to(device)
    try:
        yield
    finally:
        for module in modules if resting else ():
            module.to("cpu")


class Texts:
    """Encodes prompts with the text encoders of a pipeline.

    load     gives a pipeline with its text encoders, on the CPU
    encode   (pipeline, N texts) -> tensors [N, ...]
    cache    what was encoded is read from it, and each other text is encoded alone, so that what is stored depends on
             the text and not on those beside it; without a cache, texts are encoded in one batch
    resting  encoders wait in main memory between uses
    release  they are loaded for texts that the cache lacks, and leave memory afterwards
    """

    def __init__(
        self,
        load: Callable[[], Any],
        encode: Encode,
        device: torch.device,
        cache: PromptCache | None = None,
        resting: bool = False,
        release: bool = False,
    ) -> None:
        self._load, self._encode, self._device = load, encode, device
        self._cache, self._resting, self._release = cache, resting, release
        self.held: Any = None if release else self._loaded()

    def _loaded(self) -> Any:
        pipeline = self._load()
        for encoder in encoders_of(pipeline):
            encoder.requires_grad_(False).eval()
            if not self._resting:
                encoder.to(self._device)
        return pipeline

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> tuple[Tensor, ...]:
        """Tensors [N, ...] of N texts, on the device."""
        if self._cache is None:
            with self._encoders(True) as pipeline:
                return self._encode(pipeline, list(texts))
        self.fill(texts)
        found = {text: self._cache.get(text) or () for text in texts}
        return prompt_cache.stack([found[text] for text in texts], self._device)

    @torch.no_grad()
    def fill(self, texts: Iterable[str]) -> None:
        """Encode into the cache what it lacks, so that the encoders are needed once for all of them."""
        assert self._cache is not None, "without a cache there is nothing to fill"
        absent = [text for text in dict.fromkeys(texts) if not self._cache.path(text).is_file()]
        with self._encoders(bool(absent)) as pipeline:
            for text in absent:
                self._cache.put(text, self._encode(pipeline, [text]))

    @contextmanager
    def _encoders(self, needed: bool) -> Iterator[Any]:
        if not needed:
            yield None
            return
        pipeline = self.held or self._loaded()
        with at_work(encoders_of(pipeline), self._device, self._resting):
            yield pipeline
        if self._release:
            del pipeline
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()


def encoders_of(pipeline: Any) -> list[nn.Module]:
    """The text encoders that a pipeline holds."""
    parts = pipeline.components.items()
    return [part for name, part in parts if name.startswith("text_encoder") and part is not None]
