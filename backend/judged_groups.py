"""Judged pairs as stored groups of two: the pictures that people saw, encoded, the better one with reward 1.

Training takes scaled latents. Those that the pictures were decoded from are not kept, so the pictures are encoded
again; docs/votes.md has what that costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from backend import groups
from backend.preferences import judged_folder

ENCODED_TOGETHER = 64


def picture(path: Path) -> Tensor:
    """[1, 3, H, W] in 0..1."""
    with Image.open(path) as image:
        levels = np.array(image.convert("RGB"))
    return torch.from_numpy(levels).permute(2, 0, 1)[None].float() / 255


@torch.no_grad()
def encode(
    folder: Path, encode_frames: Callable[[Tensor], Tensor], base: str, made: dict[str, str], config: str, out: Path
) -> Path:
    """Write the decided pairs of a judged folder as groups of two into out; one that is there already is kept.

    encode_frames: frames [N, 1, 3, H, W] in 0..1 -> latents of `base`. Raises ValueError where nothing is decided.
    """
    if (out / groups.NOTES).is_file():
        made_from = groups.Notes.model_validate_json((out / groups.NOTES).read_text(encoding="utf-8")).made.get("votes")
        if made_from != str(folder):
            raise ValueError(
                f"groups: {out} was made from {made_from}, not from {folder}; train on other votes in another folder"
            )
        return out
    found, files = judged_folder.read(folder)
    if not found.pairs:
        raise ValueError(f"groups: no pair in {folder} is decided by its votes; judge some more")
    names = [name for pair in found.pairs for name in (pair.better, pair.worse)]
    leaves = torch.cat([encode_frames(part).cpu() for part in _batches(files[name] for name in names)])
    rewards = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(len(found.pairs), 1)
    notes = groups.Notes(
        prompts=tuple(pair.prompt for pair in found.pairs),
        base=base,
        rewards=(),
        made=made | {"votes": str(folder), "left_out": str(found.left_out)},
        config=config,
    )
    return groups.save(out, notes, leaves.unflatten(0, (-1, 2)), rewards, {})


def _batches(paths: Iterable[Path]) -> Iterator[Tensor]:
    """Frames [N, 1, 3, H, W] of at most `ENCODED_TOGETHER` files."""
    waiting: list[Tensor] = []
    for path in paths:
        one = picture(path)
        if len(waiting) == ENCODED_TOGETHER or (waiting and one.shape != waiting[0].shape):
            yield torch.stack(waiting)
            waiting = []
        waiting.append(one)
    if waiting:
        yield torch.stack(waiting)
