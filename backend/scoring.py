"""Who computes the rewards: the run's own process, or one of their own while the step's next prompts are sampled.

Shape legend
    N samples, F frames, C channels, H height, W width.
    Frames are at 8-bit levels (`media.quantise`), so a byte a value and the table of the 256 values carry them exactly.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor

from backend.methods.settings import Settings
from backend.rewards import judging
from backend.rewards.judging import Verdicts
from backend.types import MetadataReward, Reward

PROJECT = Path(__file__).resolve().parents[1]
FAREWELL_SECONDS = 30.0
KINDS: dict[str, type[Exception]] = {"ValueError": ValueError, "OSError": OSError, "RuntimeError": RuntimeError}
Rewards = Sequence[Reward | MetadataReward]
Metadata = Sequence[Mapping[str, Any]]


class ScorerLost(RuntimeError):
    """The process that computes the rewards is gone."""


class Scoring(Settings):
    """Where rewards are computed."""

    process: bool = Field(
        False,
        description="Compute rewards in a process of their own, while the step's next prompts are sampled; evaluations "
        "are scored there, too. Not for what refl differentiates",
    )
    device: str | None = Field(
        None, description="Device of that process: cpu, or a GPU such as cuda:1; empty: the one that the run takes"
    )
    prompts_at_once: int | None = Field(
        None,
        ge=1,
        description="Prompts that are sampled together before that process gets them; empty: one. Fewer overlap more, "
        "more fill the GPU better",
    )

    @field_validator("device", "prompts_at_once")
    @classmethod
    def _process_is_there(cls, given: Any, info: ValidationInfo) -> Any:
        if given is not None and not info.data.get("process", True):
            raise ValueError("without a process it changes nothing; set scoring.process=true, or leave this empty")
        return given

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, device: str | None) -> str | None:
        if device is not None and not re.fullmatch(r"cpu|cuda:\d+", device):
            raise ValueError("no device has this name; give cpu, or a GPU with its number, such as cuda:1")
        return device

    def prompts_per_part(self, num: int) -> int:
        """How many of a step's `num` prompts are sampled together."""
        return self.prompts_at_once or 1 if self.process else num


class Scorer(Protocol):
    """Computes rewards of what is submitted, in that order."""

    def submit(self, rewards: Rewards, frames: Tensor, prompts: Sequence[str], metadata: Metadata) -> None:
        """frames [N, F, C, H, W] at 8-bit levels, N prompts and what their source says of them."""
        ...

    def answer(self) -> Verdicts:
        """The verdicts on all that was submitted since the last answer, one after the other. Raises what
        `judging.score` raises."""
        ...

    def close(self) -> None:
        """Leave nothing running. What was not answered is lost."""
        ...


class Inline:
    """In this process, when the answer is wanted."""

    def __init__(self) -> None:
        self._asked: list[tuple[Rewards, Tensor, Sequence[str], Metadata]] = []

    def submit(self, rewards: Rewards, frames: Tensor, prompts: Sequence[str], metadata: Metadata) -> None:
        self._asked.append((rewards, frames, prompts, metadata))

    def answer(self) -> Verdicts:
        asked, self._asked = self._asked, []
        return _together([judging.score(*one) for one in asked])

    def close(self) -> None:
        """Nothing runs."""


@dataclass(frozen=True)
class Request:
    """What the other process gets. levels uint8 [N, F, C, H, W] are places in `values` [256], the frames' own."""

    rewards: tuple[Reward | MetadataReward, ...]
    levels: NDArray[np.uint8]
    values: Tensor
    prompts: tuple[str, ...]
    metadata: tuple[dict[str, Any], ...]

    def frames(self, device: torch.device) -> Tensor:
        """[N, F, C, H, W] on the device, each value as it was."""
        values = self.values.to(device)
        return torch.stack([values[torch.from_numpy(one).to(device).int()] for one in self.levels])


@dataclass(frozen=True)
class Failure:
    """What ended a request. kind: one of KINDS."""

    kind: str
    message: str


def request(rewards: Rewards, frames: Tensor, prompts: Sequence[str], metadata: Metadata) -> Request:
    """Raises ValueError for frames that are NaN, which no level stands for."""
    levels = (frames.detach().float() * 255).round()
    if levels.isnan().any():
        raise ValueError("frames: the model decoded NaN, which no picture shows; lower optimizer.learning_rate")
    # the last operation of quantise on the same device: a GPU's quotient may differ from the CPU's in its last bit
    values = (torch.arange(256).to(frames) / 255).cpu()
    sent = levels.to(torch.uint8).cpu().numpy()
    return Request(tuple(rewards), sent, values, tuple(prompts), tuple(dict(one) for one in metadata))


class Apart:
    """In a process of their own on `device` (cpu or cuda:N), from the first submission until close.

    It leaves when its connection closes, so it does not outlive this process however this one ends. Both calls raise
    ScorerLost when it is gone. Raises ValueError for a GPU that cannot be seen here.
    """

    def __init__(self, device: str) -> None:
        count = torch.cuda.device_count()
        if device != "cpu" and int(device.partition(":")[2]) >= count:
            raise ValueError(
                f"scoring.device: {device} cannot be seen here, where there are {count} GPUs, numbered from 0; name "
                "another or cpu, or look at CUDA_VISIBLE_DEVICES"
            )
        self._device = device
        self._started: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._num_asked = 0

    def submit(self, rewards: Rewards, frames: Tensor, prompts: Sequence[str], metadata: Metadata) -> None:
        data = pickle.dumps(request(rewards, frames, prompts, metadata), protocol=pickle.HIGHEST_PROTOCOL)
        if self._started is None:
            self._started = self._start()
        child, link = self._started
        try:
            link.send_bytes(data)
        except OSError as error:
            raise _lost(child) from error
        self._num_asked += 1

    def answer(self) -> Verdicts:
        num_asked, self._num_asked = self._num_asked, 0
        found = []
        for told in [self._next() for _ in range(num_asked)]:  # all are taken, so that none is left for the next answer
            if isinstance(told, Failure):
                raise KINDS[told.kind](told.message)
            found.append(told)
        return _together(found)

    def _next(self) -> Verdicts | Failure:
        assert self._started is not None
        child, link = self._started
        try:
            told = pickle.loads(link.recv_bytes())
        except (EOFError, OSError) as error:
            raise _lost(child) from error
        assert isinstance(told, Verdicts | Failure)
        return told

    def close(self) -> None:
        if self._started is None:
            return
        child, link = self._started
        self._started = None
        link.close()
        _leave(child)

    def _start(self) -> tuple[subprocess.Popen[bytes], Connection]:
        own, theirs = Pipe()
        paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        # as many threads as here, since sums depend on their number
        place = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(torch.get_num_threads())}
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self._device == "cpu" else {}
        child = subprocess.Popen(
            [sys.executable, "-u", "-m", "backend.scoring_process", str(theirs.fileno()), self._device],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **place, **hidden},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a Ctrl+C at the terminal is for the run, which still needs its rewards
        )
        theirs.close()
        return child, own


def _leave(child: subprocess.Popen[bytes]) -> int:
    """Its exit code, once it has left by itself or was made to."""
    try:
        return child.wait(FAREWELL_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _lost(child: subprocess.Popen[bytes]) -> ScorerLost:
    code = _leave(child)
    ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else "left"
    return ScorerLost(
        f"scoring: the process that computes the rewards {ending} (exit code {code}); what it said is in the log. If "
        "its memory ran out, give it another scoring.device or fewer scoring.prompts_at_once. Then resume the run"
    )


def open_scorer(settings: Scoring, device: torch.device) -> Scorer:
    """device: the run's own. Raises ValueError for a GPU that cannot be seen here."""
    return Apart(settings.device or str(device)) if settings.process else Inline()


def score(scorer: Scorer, rewards: Rewards, frames: Tensor, prompts: Sequence[str], metadata: Metadata) -> Verdicts:
    """`judging.score` by a scorer that has nothing else to answer."""
    scorer.submit(rewards, frames, prompts, metadata)
    return scorer.answer()


def _together(verdicts: Sequence[Verdicts]) -> Verdicts:
    """Verdicts on consecutive samples as one. The reasons of a reward stand side by side, each once."""
    parts = {name: torch.cat([one.parts[name] for one in verdicts]) for name in verdicts[0].parts}
    told: dict[str, list[str]] = {}
    for one in verdicts:
        for name, reason in one.reasons.items():
            told.setdefault(name, []).append(reason)
    return Verdicts(parts, {name: "; ".join(dict.fromkeys(reasons)) for name, reasons in told.items()})
