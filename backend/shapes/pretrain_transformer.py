"""The stages of `backend.shapes.pretrain` that train the transformer: flow matching, then guidance distillation."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backend.models.family import guide
from backend.shapes.pretrain_stage import Stage, train_stage

BATCH = 96
LEARNING_RATE = 1.5e-3
DISTILLATION_RATE = 5e-4
DROP_TEXT = 0.1

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def _embed(modules: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The conditioning that StableDiffusion3Pipeline.encode_prompt builds, without tokens for the absent T5."""
    outputs = [encoder(ids, output_hidden_states=True) for encoder in (modules.text_encoder, modules.text_encoder_2)]
    embeds = torch.cat([out.hidden_states[-2] for out in outputs], -1)
    return embeds, torch.cat([out.text_embeds for out in outputs], -1)


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
        both = [torch.cat(pair) for pair in zip(blank, prompted, strict=True)]
        target = guide(_velocity(teacher, x.repeat(2, 1, 1, 1), sigma.repeat(2), *both), guidance)
    return functional.mse_loss(_velocity(modules.transformer, x, sigma, *prompted), target)


def train_transformer(modules: Any, corpus: Corpus, options: Any, rank: int) -> None:
    """Rectified flow, the transformer and its text encoders together."""
    nets = torch.nn.ModuleList([modules.transformer, modules.text_encoder, modules.text_encoder_2])
    ranks = options.processes
    stage = Stage("transformer", options.steps, LEARNING_RATE, options.save_every, rank, ranks)

    def loss_at(step: int) -> Tensor:
        return _flow_loss(modules, *(part[rank::ranks] for part in corpus.batch(options.seed, step)))

    train_stage(nets, stage, options.work, loss_at)


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

    train_stage(modules.transformer, stage, options.work, loss_at)
