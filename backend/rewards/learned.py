"""A reward that was fitted to votes (backend.rewards.preference_fit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from backend.device import pick
from backend.methods.settings import Settings
from backend.preferences.standing_record import Estimate
from backend.rewards import denoising
from backend.rewards.denoising import Denoising


class Fitted(Settings):
    """What stands beside the weights, in FILE.json.

    folder        the judged pairs that it was fitted to, with what votes do not decide under left_out
    set, set_id   name of the review set, and its id where it was fitted from one; fitted_at: when (UTC)
    accuracy      share of pairs of prompts that were held out from the fit whose better picture gets the higher score
    levels, draws of backend.rewards.denoising
    """

    base: str
    folder: str
    set: str = ""
    set_id: str = ""
    fitted_at: datetime | None = None
    pairs: int
    votes: int
    left_out: dict[str, int]
    accuracy: Estimate
    levels: tuple[float, ...] = denoising.LEVELS
    draws: int = denoising.DRAWS
    made: dict[str, str]


def beside(file: Path) -> Path:
    return file.with_suffix(".json")


@dataclass(frozen=True)
class Opened:
    """weight, and the features' mean and scale on the judged pictures, float64 [F]."""

    features: Denoising
    weight: Tensor
    mean: Tensor
    scale: Tensor


@lru_cache(maxsize=2)
def opened(file: str) -> Opened:
    """Raises ValueError where the file is not there, or was fitted on other features than these."""
    from safetensors.torch import load_file

    path = Path(file)
    if not file or not path.is_file() or not beside(path).is_file():
        raise ValueError(
            f"rewards.learned.file: {file!r} is not there with its .json; make both with `espalier votes fit`"
        )
    notes = Fitted.model_validate_json(beside(path).read_text(encoding="utf-8"))
    if (notes.levels, notes.draws) != (denoising.LEVELS, denoising.DRAWS):
        raise ValueError(f"rewards.learned.file: {file} was fitted on other features; fit it again with this version")
    stored = load_file(path)
    return Opened(Denoising(notes.base, pick()), stored["weight"], stored["mean"], stored["scale"])


class Learned(Settings):
    """What a reviewer would prefer, as log-odds: one more than another is e : 1 in its favour.

    0 is the mean of the pictures that were judged. It knows no more than the votes and the base's features tell, and a
    run that trains on it for long finds pictures that score high without being better; watch another reward beside it.
    """

    differentiable: ClassVar[bool] = True
    name: Literal["learned"] = "learned"
    weight: float = Field(1.0, description="Factor in the sum of rewards")
    file: str = Field("", description="What `espalier votes fit` wrote; its .json says which votes it was fitted to")

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, 1, 3, H, W] in 0..1 -> float64 [N] on the CPU, with gradients where frames have them.

        Raises ValueError where the file cannot be used, and for pictures of another size than the base's.
        """
        head = opened(self.file)
        found = head.features(frames, prompts).double().cpu()
        return (found - head.mean) / head.scale @ head.weight
