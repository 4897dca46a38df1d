"""How a stage of pretraining trains: AdamW with a moving average, shared among processes, and resumed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

EMA_DECAY = 0.999
WARMUP = 200
DECAY = 0.25


def log_stage(work: Path, **facts: Any) -> None:
    """Print a line of JSON and append it to the log."""
    line = json.dumps({"time": round(time.time(), 1), **facts})
    print(line, flush=True)
    with (work / "log.jsonl").open("a") as log:
        log.write(line + "\n")


def _average_gradients(parameters: list[torch.nn.Parameter], ranks: int) -> None:
    if ranks == 1:
        return
    flat = torch.cat([value.grad.flatten() for value in parameters if value.grad is not None])
    torch.distributed.all_reduce(flat)
    flat /= ranks
    offset = 0
    for value in parameters:
        if value.grad is not None:
            value.grad.copy_(flat[offset : offset + value.grad.numel()].view_as(value.grad))
            offset += value.grad.numel()


@dataclass(frozen=True)
class Stage:
    """How one stage trains. Its checkpoint is WORK/{name}.pt."""

    name: str
    steps: int
    learning_rate: float
    save_every: int
    rank: int
    ranks: int


def train_stage(nets: torch.nn.Module, stage: Stage, work: Path, loss_at: Callable[[int], Tensor]) -> None:
    """AdamW on loss_at(step); the learning rate falls linearly in the last quarter; the moving average is kept.

    Each of the processes takes its share of every batch, and gradients are averaged, so their number changes
    nothing but the speed and the last bits.
    """
    parameters = list(nets.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=stage.learning_rate, betas=(0.9, 0.99), weight_decay=0.01)
    ema = {name: value.clone() for name, value in nets.state_dict().items()}
    step, spent = 0, 0.0
    partial = work / f"{stage.name}.pt"
    if partial.exists():
        stored = torch.load(partial, weights_only=True)
        nets.load_state_dict(stored["nets"])
        optimizer.load_state_dict(stored["optimizer"])
        ema, step, spent = stored["ema"], stored["step"], stored["seconds"]
    nets.train()
    started = time.time() - spent
    losses: list[float] = []
    while step < stage.steps:
        loss = loss_at(step)
        warmed, left = (step + 1) / WARMUP, (stage.steps - step) / (DECAY * stage.steps)
        for group in optimizer.param_groups:
            group["lr"] = stage.learning_rate * min(1.0, warmed, left)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        _average_gradients(parameters, stage.ranks)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
        step += 1
        decay = min(EMA_DECAY, step / (step + 10))
        for name, value in nets.state_dict().items():
            if value.is_floating_point():
                ema[name].lerp_(value, 1 - decay)
        if stage.rank == 0 and step % 100 == 0:
            mse, seconds = sum(losses) / len(losses), round(time.time() - started, 1)
            log_stage(work, stage=stage.name, step=step, mse=round(mse, 5), seconds=seconds)
            losses.clear()
        if stage.rank == 0 and (step % stage.save_every == 0 or step == stage.steps):
            state = {"nets": nets.state_dict(), "optimizer": optimizer.state_dict(), "ema": ema, "step": step}
            torch.save({**state, "seconds": time.time() - started}, partial.with_suffix(".tmp"))
            partial.with_suffix(".tmp").rename(partial)
    nets.load_state_dict(ema)
    nets.eval()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save-every", type=int, default=500, help="steps of the transformer between checkpoints")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that share its batches")
    parser.add_argument("--seed", type=int, default=0)


def spawn(work: Callable[[int, Any, str], None], options: argparse.Namespace) -> None:
    """Runs work(rank, options, meeting) in `options.processes` processes, each of which joins the others first.

    They end with this one, also when it is told to: one that went on would write over the checkpoints of the next.
    """
    usual = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory() as meeting:
            place = f"file://{meeting}/ranks"
            torch.multiprocessing.spawn(work, (options, place), nprocs=options.processes, daemon=True)
    finally:
        signal.signal(signal.SIGTERM, usual)


def join(rank: int, options: argparse.Namespace, meeting: str) -> None:
    """This process on one thread, among the others, at the common seed."""
    torch.set_num_threads(1)
    if options.processes > 1:
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=options.processes)
    torch.manual_seed(options.seed)
