"""The stages of pretraining that train an autoencoder of pictures or videos of bright objects on a dark ground.

Shape legend
    N samples, [3, H, W] pictures or [3, F, H, W] videos.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.shapes.pretrain_stage import log_stage

BATCH = 32
KL_WEIGHT = 1e-4
NOISE = 0.3  # of the latents that the decoder learns from: what a denoiser leaves
LEARNING_RATE, DECODER_RATE = 2e-3, 1.5e-3

Data = Callable[[], Tensor]


def normalised(samples: Tensor) -> Tensor:
    """uint8 [N, ...] -> floats in -1..1."""
    return samples.float() / 127.5 - 1


def train_autoencoder(vae: Any, data: Data, work: Path, steps: int, seed: int, batch: int = BATCH) -> None:
    """Reconstruction with a small KL term, into WORK/autoencoder.pt; data makes uint8 [N, 3, ...]."""

    def loss_of(x: Tensor) -> tuple[Tensor, Tensor]:
        posterior = vae.encode(x).latent_dist
        error = _error(vae.decode(posterior.sample()).sample, x)
        divergence = 0.5 * (posterior.mean**2 + posterior.var - 1 - posterior.logvar).sum(1).mean()
        return error + KL_WEIGHT * divergence, error

    with _kept(vae, work / "autoencoder.pt") as is_new:
        if is_new:
            _fit(list(vae.parameters()), data, loss_of, work, Fit("autoencoder", LEARNING_RATE, steps, seed, batch))


def train_decoder(vae: Any, data: Data, work: Path, steps: int, seed: int, batch: int = BATCH) -> None:
    """Sharpen the decoder on latents with some noise, while the encoder stays, into WORK/decoder.pt."""

    def loss_of(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            latents = vae.encode(x).latent_dist.sample()
        strength = NOISE * torch.rand(len(x), *[1] * (latents.dim() - 1))
        error = _error(vae.decode(latents + strength * torch.randn_like(latents)).sample, x)
        return error, error

    fixed = ("encoder.", "quant_conv.")
    parameters = [value for name, value in vae.named_parameters() if not name.startswith(fixed)]
    with _kept(vae, work / "decoder.pt") as is_new:
        if is_new:
            _fit(parameters, data, loss_of, work, Fit("decoder", DECODER_RATE, steps, seed, batch))


@contextmanager
def _kept(vae: Any, file: Path) -> Iterator[bool]:
    """Yields whether the weights are still to be trained; they are read from the file, or written to it."""
    is_new = not file.exists()
    if not is_new:
        vae.load_state_dict(torch.load(file, weights_only=True))
    vae.train(is_new)
    yield is_new
    vae.eval()
    if is_new:
        torch.save(vae.state_dict(), file)


def _error(out: Tensor, x: Tensor) -> Tensor:
    """L1, objects weighted five times the ground."""
    weight = 1 + 4 * (x.amax(1, keepdim=True) > -0.6).float()
    return (weight * (out - x).abs()).mean()


@dataclass(frozen=True)
class Fit:
    """How one stage trains; its learning rate goes through one cycle."""

    stage: str
    learning_rate: float
    steps: int
    seed: int
    batch: int


def _fit(
    parameters: list[torch.nn.Parameter],
    data: Data,
    loss_of: Callable[[Tensor], tuple[Tensor, Tensor]],
    work: Path,
    fit: Fit,
) -> None:
    """AdamW. loss_of(x) is what is minimised and what is logged."""
    torch.manual_seed(fit.seed)
    samples = data()
    rate = fit.learning_rate
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=fit.steps, pct_start=0.05)
    started = time.time()
    for step in range(fit.steps):
        x = normalised(samples[torch.randint(len(samples), (fit.batch,))])
        if x.dim() == 4:
            x = x.to(memory_format=torch.channels_last)
        loss, error = loss_of(x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == fit.steps - 1:
            seconds = round(time.time() - started, 1)
            log_stage(work, stage=fit.stage, step=step, l1=round(error.item(), 5), seconds=seconds)
