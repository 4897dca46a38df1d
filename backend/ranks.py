"""Several processes that train one run, a GPU each: what they exchange, and how a failure of one reaches all.

Each takes whole prompts, so only small things cross: rewards and log-probabilities of a rollout, sums of gradients, and
means for the charts. All compute the same credit and take the same optimizer step, so all hold the same weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from backend.types import ALONE, Ranks, Rollout

T = TypeVar("T")
BUCKET = 32 * 2**20  # bytes of gradients that are added in one go
PATIENCE = timedelta(days=30)  # one process may evaluate for hours while the others wait


class PeerFailed(RuntimeError):
    """Another process of the run failed, for the reason in the message."""


class PeerLost(RuntimeError):
    """Another process of the run is gone and said nothing."""


class Joined:
    """Processes that were started together, as `accelerate launch`, torchrun and `backend.peers` start them."""

    def __init__(self) -> None:
        # imported while a group exists, it keeps that group and its threads alive to the end of the process, where a
        # thread that lets go of its last tensor then aborts the process
        import torch._dynamo
        from accelerate import PartialState

        self._state = PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)

    @property
    def rank(self) -> int:
        return int(self._state.process_index)

    @property
    def size(self) -> int:
        return int(self._state.num_processes)

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank. Raises PeerFailed when one of them has failed instead."""
        self._agree(failed=False)
        return self._exchange(value)

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Sums in place, in buckets of one dtype. Raises PeerFailed when a process has failed instead."""
        self._agree(failed=False)
        for bucket in buckets(tensors):
            summed = self._sum(torch.cat([one.detach().flatten() for one in bucket]).to(self._state.device))
            for one, part in zip(bucket, summed.split([one.numel() for one in bucket]), strict=True):
                one.detach().copy_(part.view_as(one))

    def fail(self, reason: str) -> None:
        """Answers what the others ask next with a failure, which ends them too."""
        self._agree(failed=True, reason=f"process {self.rank}: {reason}")

    def leave(self) -> None:
        self._state.destroy_process_group()

    def _agree(self, failed: bool, reason: str = "") -> None:
        if not self._sum(torch.tensor([int(failed)], device=self._state.device)).item():
            return
        reasons = [one for one in self._exchange(reason) if one]
        if not failed:
            raise PeerFailed("; ".join(reasons))

    def _exchange(self, value: T) -> list[T]:
        from accelerate.utils import gather_object

        with _told_apart():
            found: list[T] = gather_object([value])
        return found

    def _sum(self, tensor: Tensor) -> Tensor:
        from accelerate.utils import reduce

        with _told_apart():
            summed: Tensor = reduce(tensor, reduction="sum")
        return summed


@contextmanager
def _told_apart() -> Iterator[None]:
    """A broken connection is not an error of this process's own work; memory that ran out is."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise PeerLost(f"another process of the run is gone: {error}") from error


def launched() -> int:
    """How many processes this one was started with, by a launcher that says so in the environment; 1 for none."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join(processes: int) -> Ranks:
    """This process among those of its run. Raises ValueError when a launcher started another number than asked for."""
    if launched() != processes:
        raise ValueError(
            f"processes: the run asks for {processes}, but its launcher started {launched()}; start as many, or add "
            f"--set processes={launched()}"
        )
    return Joined() if processes > 1 else ALONE


def check_devices(processes: int) -> None:
    """Raises ValueError where there are GPUs, but fewer than processes. Without any, all compute on the CPU."""
    gpus = torch.cuda.device_count()
    if 0 < gpus < processes:
        raise ValueError(
            f"processes: {processes} of them need a GPU each, and {gpus} can be seen here; ask for at most {gpus}, or "
            "look at CUDA_VISIBLE_DEVICES"
        )


def buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Consecutive tensors of one dtype, together at most BUCKET bytes or alone."""
    bucket: list[Tensor] = []
    size = 0
    for one in tensors:
        if bucket and (size + one.nbytes > BUCKET or one.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(one)
        size += one.nbytes
    if bucket:
        yield bucket


def add_gradients(parameters: Sequence[nn.Parameter], ranks: Ranks) -> None:
    """The sum of all processes' gradients becomes the gradient of each.

    A process without a share of an update has none, which counts as 0; a parameter that none of them used keeps none.
    Nothing hooks into the forward, which methods call with weights other than the module's own.
    """
    if ranks.size == 1:
        return
    used = torch.tensor([int(one.grad is not None) for one in parameters])
    ranks.add([used])
    gradients = []
    for one, count in zip(parameters, used.tolist(), strict=True):
        if count:
            one.grad = torch.zeros_like(one) if one.grad is None else one.grad
            gradients.append(one.grad)
    ranks.add(gradients)


def whole(rollout: Rollout, prompts: Sequence[str], ranks: Ranks) -> Rollout:
    """A process's rollout of its own prompts as part of that of all: log-probabilities and parts [P, ...] of everyone.

    prompts  the texts of all processes, in order;  states and cond stay those of this process
    """
    told = ranks.gather(([one.cpu() for one in rollout.logps], {k: one.cpu() for k, one in rollout.parts.items()}))
    device = rollout.states[-1].device
    logps = [torch.cat(levels).to(device) for levels in zip(*(logps for logps, _ in told), strict=True)]
    parts = {name: torch.cat([parts[name] for _, parts in told]) for name in rollout.parts}
    return replace(rollout, prompts=tuple(prompts), logps=tuple(logps), parts=parts, ranks=ranks)


def pooled(told: Sequence[Sequence[tuple[int, dict[str, float]]]]) -> list[dict[str, float]]:
    """Of each update, the means over all processes' things of (count, means) that each process found."""
    if len(told) == 1:
        return [metrics for _, metrics in told[0]]
    found = []
    for update in zip(*told, strict=True):
        names = dict.fromkeys(name for _, metrics in update for name in metrics)
        found.append({name: _mean([(n, metrics[name]) for n, metrics in update if name in metrics]) for name in names})
    return found


def _mean(values: Sequence[tuple[int, float]]) -> float:
    return sum(count * value for count, value in values) / sum(count for count, _ in values)


def in_turn(ranks: Ranks, work: Callable[[], Any]) -> Any:
    """Process 0 does the work first and the others after it, who find what it left on the disk."""
    found = work() if ranks.rank == 0 else None
    ranks.gather(None)
    return found if ranks.rank == 0 else work()
