"""The pictures that videos start from, encoded once each.

Shape legend
    P prompts; what a family makes of one picture is a tuple of tensors [1, ...].
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.models.prompt_cache import PromptCache, stack

HELD = 16  # encoded pictures that stay in main memory, those used last


class FirstFrames:
    """Encodes pictures by their content: a file that is written anew is another picture, a copy is the same.

    encode  an RGB picture -> tensors [1, ...]
    cache   keeps them on disk for all runs, under the hash of the file's bytes
    """

    def __init__(
        self, encode: Callable[[Any], tuple[Tensor, ...]], device: torch.device, cache: PromptCache | None = None
    ) -> None:
        self._encode, self._device, self._cache = encode, device, cache
        self._held: OrderedDict[str, tuple[Tensor, ...]] = OrderedDict()

    @torch.no_grad()
    def __call__(self, files: Sequence[str]) -> tuple[Tensor, ...]:
        """Tensors [P, ...] of P files, on the device. Raises ValueError for a file that is no picture."""
        found = {file: self._one(file) for file in dict.fromkeys(files)}
        return stack([found[file] for file in files], self._device)

    def _one(self, file: str) -> tuple[Tensor, ...]:
        if not Path(file).is_file():
            raise ValueError(f"first_frame: {file} does not exist; give a picture")
        name = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        encoded = self._held.pop(name, None) or (self._cache.get(name) if self._cache else None)
        if encoded is None:
            encoded = tuple(one.cpu() for one in self._encode(_open(file)))
            if self._cache is not None:
                self._cache.put(name, encoded)
        self._held[name] = encoded
        while len(self._held) > HELD:
            self._held.popitem(last=False)
        return encoded


def _open(file: str) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(file).convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError) as error:
        raise ValueError(f"first_frame: {file} cannot be read as a picture ({error}); give another one") from error
