"""OCR: does the picture show the text that its prompt asks for?

Shape legend
    N samples, K judged frames of each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from backend.methods.settings import Settings
from backend.rewards import scaling
from backend.rewards.judging import RewardFailed
from backend.rewards.picture_reward import evenly

QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”')


def target(prompt: str, metadata: Mapping[str, Any]) -> str | None:
    """The text to show: metadata's `text`, else what stands between the prompt's first pair of double quotes."""
    told = metadata.get("text")
    if isinstance(told, str) and told.strip():
        return told
    match = QUOTED.search(prompt)
    return (match[1] or match[2]) if match and plain(match[0].strip('"“”')) else None


def plain(text: str) -> str:
    """Lower case, without white space."""
    return "".join(text.lower().split())


def distance(first: str, second: str) -> int:
    """Levenshtein's: insertions, deletions and replacements of a letter that turn one into the other."""
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (one != other))
    return row[-1]


def similarity(recognised: str, wanted: str) -> float:
    """1 - d / len(wanted), in 0..1: d = 0 where the wanted text is part of what was read, else at most len(wanted)."""
    read, asked = plain(recognised), plain(wanted)
    if asked in read:
        return 1.0
    return 1 - min(distance(read, asked), len(asked)) / len(asked)


@lru_cache(maxsize=1)
def engine() -> Any:
    """PP-OCRv4 of PaddleOCR as RapidOCR carries it in its wheel; no file is fetched."""
    try:
        from rapidocr_onnxruntime import RapidOCR
    except ImportError as error:
        raise ValueError(
            f"rewards.ocr: RapidOCR cannot be imported ({error}); "
            "run .venv/bin/pip install -e '.[ocr]', and where libGL is "
            "missing replace opencv-python by opencv-python-headless"
        ) from error
    return RapidOCR()


def read(picture: NDArray[np.uint8]) -> str:
    """All lines of a picture [H, W, 3] of RGB levels, from top to bottom; empty where none is found."""
    lines, _ = engine()(np.ascontiguousarray(picture[..., ::-1]), use_cls=False)
    return "".join(text for _, text, _ in lines or [])


class OCR(Settings):
    """How much of the text in quotes can be read in the picture (Flow-GRPO's OCR task): 1 all of it, 0 none.

    Letters' case and white space do not count, and more text around it costs nothing. A prompt without a text to show
    is not judged. PP-OCRv4 through RapidOCR: Apache-2.0 licence, 15 MB in the wheel; the papers use PaddleOCR 2.9.1,
    whose numbers differ a little.
    """

    differentiable: ClassVar[bool] = False
    needs_metadata: ClassVar[Literal[True]] = True
    name: Literal["ocr"] = "ocr"
    weight: float = scaling.weight("ocr")
    frames: int = Field(
        4, ge=1, le=256, description="Evenly spaced frames of a video whose mean counts; an image has one (ours)"
    )

    def score(self, frames: Tensor, prompts: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> Tensor:
        """frames [N, F, 3, H, W] -> float64 [N], NaN where neither prompt nor metadata `text` names a text."""
        wanted = [target(prompt, told) for prompt, told in zip(prompts, metadata, strict=True)]
        if not any(wanted):
            raise RewardFailed(
                f'ocr: no prompt says which text to show, as in a sign that says "open": {prompts[0]!r}; '
                "use prompts with a text in double quotes, or metadata with `text`"
            )
        levels = (evenly(frames, self.frames) * 255).round().clamp(0, 255).to(torch.uint8)
        pictures = levels.permute(0, 1, 3, 4, 2).cpu().numpy()
        rows = [
            math.nan if text is None else float(np.mean([similarity(read(one), text) for one in shown]))
            for shown, text in zip(pictures, wanted, strict=True)
        ]
        return torch.tensor(rows, dtype=torch.float64)
