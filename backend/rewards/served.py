"""Rewards that another process computes, asked over HTTP: patience, repeats, and pictures as text.

Shape legend
    N samples, K judged frames of each.
"""

from __future__ import annotations

import base64
import io
import os
import time
from typing import Any, ClassVar

import httpx
import numpy as np
from PIL import Image
from pydantic import Field
from torch import Tensor

from backend.media import quantise
from backend.methods.settings import Settings
from backend.rewards.judging import RewardFailed

SHOWN = 300  # letters of an answer that an error quotes
BUSY = 429
LONGEST_WAIT = 60.0


def png(picture: Tensor, longest: int | None = None) -> str:
    """[3, H, W] in 0..1 -> PNG in base 64; one whose longer side is above `longest` is shrunk to it."""
    levels = (quantise(picture.float()) * 255).byte().permute(1, 2, 0).cpu().numpy()
    image = Image.fromarray(np.ascontiguousarray(levels))
    if longest is not None and max(image.size) > longest:
        share = longest / max(image.size)
        width, height = (max(1, round(side * share)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


class ServedReward(Settings):
    """How a server is asked. It is asked again after a time-out, a broken connection, a 429 or a 5xx, and no more."""

    differentiable: ClassVar[bool] = False
    frames: int = Field(
        4, ge=1, le=256, description="Evenly spaced frames of a video that are judged; an image has one (ours)"
    )
    timeout: float = Field(60.0, gt=0, le=3600, description="Seconds until an answer must be there (ours)")
    retries: int = Field(3, ge=0, le=20, description="Further tries before a sample counts as not judged (ours)")
    backoff: float = Field(
        1.0, ge=0, le=60, description="Seconds before the first of them; each next waits twice as long, at most 60"
    )
    key_variable: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the server's key, sent as a bearer token; empty = none",
    )

    def _ask(self, url: str, body: dict[str, Any]) -> Any:
        """POST body as JSON -> the answer's JSON. Raises RewardFailed, and ValueError where the key is not set."""
        headers = self._headers()
        for tried in range(self.retries + 1):
            if tried:
                time.sleep(min(self.backoff * 2 ** (tried - 1), LONGEST_WAIT))
            try:
                answer = httpx.post(url, json=body, headers=headers, timeout=self.timeout)
            except httpx.TransportError as error:
                why = f"{url} did not answer ({type(error).__name__}: {error})"
                continue
            if answer.is_success:
                return self._json(url, answer)
            why = f"{url} answered {answer.status_code}: {answer.text[:SHOWN]}"
            if answer.status_code != BUSY and answer.is_client_error:
                raise RewardFailed(why)
        raise RewardFailed(f"{why}; asked {self.retries + 1} times")

    def _json(self, url: str, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise RewardFailed(f"{url} answered what is not JSON: {answer.text[:SHOWN]}") from error

    def _headers(self) -> dict[str, str]:
        if self.key_variable is None:
            return {}
        key = os.environ.get(self.key_variable)
        if not key:
            raise ValueError(f"key_variable: {self.key_variable} is not set where this process runs; set it to the key")
        return {"Authorization": f"Bearer {key}"}
