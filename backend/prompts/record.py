"""A prompt, and what its source says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prompt:
    """text: what the model is given.

    metadata         every other column of its row, for rewards that need it: GenEval's `include`, an OCR target
    negative_prompt  what classifier-free guidance leads away from; None: what the model's settings say
    image            kept, and used by no model here
    first_frame      path of the picture that an image-to-video base starts its video from
    line             its line in the file (its row in a parquet file or a dataset), from 1; 0: it has none
    """

    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    negative_prompt: str | None = None
    image: str | None = None
    line: int = 0
    first_frame: str | None = None

    @property
    def task(self) -> str:
        """The category that evaluations are averaged inside: `task`, or `tag` as in GenEval's files; else empty."""
        return str(self.metadata.get("task") or self.metadata.get("tag") or "")
