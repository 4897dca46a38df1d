"""The stages of `backend.shapes.pretrain` that train the transformer: flow matching, then guidance distillation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

BATCH = 96
LEARNING_RATE = 1.5e-3
DISTILLATION_RATE = 5e-4
EMA_DECAY = 0.999
DROP_TEXT = 0.1
WARMUP = 200
DECAY = 0.25

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def log_stage(work: Path, **facts: Any) -> None:
    """Print a line of JSON and append it to the log."""
    line = json.dumps({"time": round(time.time(), 1), **facts})
    print(line, flush=True)
    with (work / "log.jsonl").open("a") as log:
        log.write(line + "\n")


def _embed(modules: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The conditioning that StableDiffusion3Pipeline.encode_prompt builds, without tokens for the absent T5."""
    outputs = [encoder(ids, output_hidden_states=True) for encoder in (modules.text_encoder, modules.text_encoder_2)]
    embeds = torch.cat([out.hidden_states[-2] for out in outputs], -1)
    return embeds, torch.cat([out.text_embeds for out in outputs], -1)


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
class Corpus:
    """What the transformer learns from. mean, logvar [N, 8, 8, 8]; ids [N, L] of the prompts, empty [1, L]."""

    mean: Tensor
    logvar: Tensor
    ids: Tensor
    empty: Tensor
    shift: float
    scale: float

    def batch(self, seed: int, step: int) -> Batch:
        """x0 and noise [B, 8, 8, 8], logit-normal sigma [B], token ids [B, L], some of them emptied."""
        rng = torch.Generator().manual_seed(seed * 1_000_003 + step)
        rows = torch.randint(len(self.ids), (BATCH,), generator=rng)
        posterior_noise = torch.randn(BATCH, *self.mean.shape[1:], generator=rng)
        latents = self.mean[rows].float() + (0.5 * self.logvar[rows].float()).exp() * posterior_noise
        eps = torch.randn(latents.shape, generator=rng)
        sigma = torch.sigmoid(torch.randn(BATCH, generator=rng) + 0.3)
        emptied = torch.rand(BATCH, 1, generator=rng) < DROP_TEXT
        return (latents - self.shift) * self.scale, eps, sigma, torch.where(emptied, self.empty, self.ids[rows])


def _velocity(transformer: Any, x: Tensor, sigma: Tensor, embeds: Tensor, pooled: Tensor) -> Tensor:
    velocity: Tensor = transformer(
        hidden_states=x,
        encoder_hidden_states=embeds,
        pooled_projections=pooled,
        timestep=sigma * 1000,
        return_dict=False,
    )[0]
    return velocity


def _flow_loss(modules: Any, x0: Tensor, eps: Tensor, sigma: Tensor, tokens: Tensor) -> Tensor:
    s = sigma[:, None, None, None]
    velocity = _velocity(modules.transformer, (1 - s) * x0 + s * eps, sigma, *_embed(modules, tokens))
    return functional.mse_loss(velocity, eps - x0)


def _guidance_loss(modules: Any, teacher: Any, guidance: float, empty: Tensor, batch: Batch) -> Tensor:
    """Distance to the teacher's guided velocity, v(empty) + guidance (v(prompt) - v(empty)), at noised true latents.

    Where a batch's prompt is itself empty this is the teacher's velocity, so what is learnt can still be guided.
    """
    x0, eps, sigma, tokens = batch
    s = sigma[:, None, None, None]
    x = (1 - s) * x0 + s * eps
    with torch.no_grad():
        prompted = _embed(modules, tokens)
        blank = _embed(modules, empty.expand_as(tokens))
        both = [torch.cat(pair) for pair in zip(prompted, blank, strict=True)]
        conditional, unconditional = _velocity(teacher, x.repeat(2, 1, 1, 1), sigma.repeat(2), *both).chunk(2)
        target = unconditional + guidance * (conditional - unconditional)
    return functional.mse_loss(_velocity(modules.transformer, x, sigma, *prompted), target)


@dataclass(frozen=True)
class Stage:
    """How one stage trains. Its checkpoint is WORK/{name}.pt."""

    name: str
    steps: int
    learning_rate: float
    save_every: int
    rank: int
    ranks: int


def _train(nets: torch.nn.Module, stage: Stage, work: Path, loss_at: Callable[[int], Tensor]) -> None:
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


def train_transformer(modules: Any, corpus: Corpus, options: Any, rank: int) -> None:
    """Rectified flow, the transformer and its text encoders together."""
    nets = torch.nn.ModuleList([modules.transformer, modules.text_encoder, modules.text_encoder_2])
    ranks = options.processes
    stage = Stage("transformer", options.steps, LEARNING_RATE, options.save_every, rank, ranks)

    def loss_at(step: int) -> Tensor:
        return _flow_loss(modules, *(part[rank::ranks] for part in corpus.batch(options.seed, step)))

    _train(nets, stage, options.work, loss_at)


def distil_guidance(modules: Any, corpus: Corpus, options: Any, rank: int) -> None:
    """Teach the transformer to give at guidance 1 what it gives at `options.guidance`; the text encoders stay.

    Guidance distillation (Meng et al. 2023, arXiv:2210.03142) with one fixed scale: a rollout and a training step then
    cost one forward per state instead of two.
    """
    teacher = deepcopy(modules.transformer).requires_grad_(False)
    ranks = options.processes
    stage = Stage("guidance", options.guidance_steps, DISTILLATION_RATE, options.save_every, rank, ranks)

    def loss_at(step: int) -> Tensor:
        x0, eps, sigma, tokens = (part[rank::ranks] for part in corpus.batch(options.seed, options.steps + step))
        return _guidance_loss(modules, teacher, options.guidance, corpus.empty, (x0, eps, sigma, tokens))

    _train(modules.transformer, stage, options.work, loss_at)
