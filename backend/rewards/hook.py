"""A reward of the user's own as a Python function; docs/rewards.md has an example."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.methods.settings import Settings
from backend.rewards import scaling
from backend.rewards.judging import RewardFailed

logger = logging.getLogger(__name__)


def load(path: str) -> Callable[..., Any]:
    """The function of `module:function`. Raises ValueError where it is not there."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"rewards.hook.function: {path!r} cannot be loaded ({error}); put the module on PYTHONPATH of the worker"
        ) from error
    if not callable(found):
        raise ValueError(f"rewards.hook.function: {path!r} is {type(found).__name__}, not a function; name a function")
    return found


class Hook(Settings):
    """function(frames, prompts, metadata) -> N numbers, the larger the better; None or NaN where it cannot judge.

    frames: float tensor [N, F, 3, H, W] in 0..1 on the CPU. It runs in the worker's process with its rights: name only
    code that you trust. An error in it leaves the samples unjudged, and is counted.
    """

    differentiable: ClassVar[bool] = False
    needs_metadata: ClassVar[Literal[True]] = True
    name: Literal["hook"] = "hook"
    weight: float = scaling.weight("hook")
    function: str = Field(
        "my_reward:score",
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="module:function, as Python imports it",
    )

    def score(self, frames: Tensor, prompts: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> Tensor:
        """frames [N, F, 3, H, W] in 0..1 -> float64 [N].

        Raises RewardFailed when the function raises or returns something else than N numbers, and ValueError where
        there is no such function.
        """
        function = load(self.function)
        try:
            found = function(frames.detach().cpu(), list(prompts), [dict(one) for one in metadata])
        except Exception as error:  # it is not our code, so it may raise anything; the run outlives it
            logger.exception("%s raised", self.function)
            raise RewardFailed(f"{self.function} raised {type(error).__name__}: {error}") from error
        return numbers(found, len(prompts), self.function)


def numbers(found: Any, count: int, where: str) -> Tensor:
    """What a function returned as float64 [count]; None is NaN. Raises RewardFailed unless it is so many numbers."""
    try:
        values = torch.tensor([torch.nan if one is None else float(one) for one in found], dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise RewardFailed(f"{where} returned {type(found).__name__}, which is not {count} numbers: {error}") from error
    if len(values) != count:
        raise RewardFailed(f"{where} returned {len(values)} numbers for {count} samples")
    return values
