"""Pretrains a video base for the moving-shapes world: `python -m backend.moving.pretrain --out DIR`.

Five stages, each seeded, logged to WORK/log.jsonl and resumed from WORK when cut off:
1. autoencoder: an AutoencoderKLWan that packs videos of 9 frames of 64x64 into latents of 5 x 8 x 8 cells,
   first on single frames, then on whole videos;
2. latents of a fixed set of videos, computed once;
3. decoder: its half of the autoencoder goes on learning, from latents with some noise, while the encoder stays;
4. transformer: a WanTransformer3DModel (flow matching) together with its UMT5 text encoder, from scratch;
5. guidance: the transformer learns to give by itself what classifier-free guidance gives (Meng et al. 2023,
   arXiv:2210.03142), so that a rollout costs one forward a state instead of two.
The result is a WanPipeline folder that `DiffusionPipeline.from_pretrained` loads.
"""

from __future__ import annotations

import argparse
import os
import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from backend.flow import noise
from backend.models.family import guide
from backend.moving import prompts, render
from backend.moving.bundle import TEXT_LENGTH, build_modules, save_bundle
from backend.shapes.pretrain_autoencoder import normalised, train_autoencoder, train_decoder
from backend.shapes.pretrain_stage import Stage, add_options, join, log_stage, spawn, train_stage

AUTOENCODER_VIDEOS = 3000
AUTOENCODER_BATCH = 8
BATCH = 64
LEARNING_RATE = 1.5e-3
DISTILLATION_RATE = 5e-4
DROP_TEXT = 0.1


def videos(number: int, seed: int) -> tuple[Tensor, list[str]]:
    """Truths of random training prompts: uint8 [number, 3, F, 64, 64] and their texts."""
    rng = np.random.default_rng(seed)
    chosen = [prompts.LISTS.training(rng) for _ in range(number)]
    stack = np.stack([render.render(item.scene, rng) for item in chosen])
    return torch.from_numpy(stack).permute(0, 4, 1, 2, 3).contiguous(), [item.text for item in chosen]


@torch.no_grad()
def encode_videos(vae: Any, work: Path, seed: int, number: int) -> tuple[Tensor, Tensor, list[str]]:
    """Means and log-variances [number, C, 5, 8, 8] float16 of the training videos, and their texts."""
    done = work / "latents.pt"
    if not done.exists():
        started = time.time()
        means, logvars, texts = [], [], []
        for first in range(0, number, 500):
            data, named = videos(min(500, number - first), seed + 2 + first)
            texts += named
            for chunk in data.split(20):
                posterior = vae.encode(normalised(chunk)).latent_dist
                means.append(posterior.mean.half())
                logvars.append(posterior.logvar.half())
        torch.save({"mean": torch.cat(means), "logvar": torch.cat(logvars), "texts": texts}, done)
        log_stage(work, stage="latents", videos=number, seconds=round(time.time() - started, 1))
    stored = torch.load(done, weights_only=True)
    return stored["mean"], stored["logvar"], stored["texts"]


@dataclass(frozen=True)
class Corpus:
    """What the transformer learns from.

    mean, logvar [N, C, 5, 8, 8]; shift, scale [C, 1, 1, 1] of each channel; ids, mask [N, L] of the prompts, and of
    the empty one at the end.
    """

    mean: Tensor
    logvar: Tensor
    shift: Tensor
    scale: Tensor
    ids: Tensor
    mask: Tensor

    def batch(self, seed: int, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x0 and noise [B, C, 5, 8, 8], logit-normal sigma [B], rows of the prompts [B], some of them the empty one."""
        rng = torch.Generator().manual_seed(seed * 1_000_003 + step)
        rows = torch.randint(len(self.mean), (BATCH,), generator=rng)
        posterior_noise = torch.randn(BATCH, *self.mean.shape[1:], generator=rng)
        latents = self.mean[rows].float() + (0.5 * self.logvar[rows].float()).exp() * posterior_noise
        eps = torch.randn(latents.shape, generator=rng)
        sigma = torch.sigmoid(torch.randn(BATCH, generator=rng) + 0.3)
        emptied = torch.rand(BATCH, generator=rng) < DROP_TEXT
        return (latents - self.shift) * self.scale, eps, sigma, torch.where(emptied, len(self.ids) - 1, rows)


def statistics(mean: Tensor, logvar: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std [C] of latents drawn from posteriors [N, C, 5, 8, 8]; a channel that says little is mostly noise."""
    spread, centre = torch.var_mean(mean.float(), dim=(0, 2, 3, 4))
    return centre, (spread + logvar.float().exp().mean((0, 2, 3, 4))).sqrt()


def _corpus(modules: Any, work: Path, seed: int, number: int) -> Corpus:
    """The corpus; its statistics become those of the autoencoder's config."""
    mean, logvar, texts = encode_videos(modules.vae, work, seed, number)
    centre, std = statistics(mean, logvar)
    modules.vae.register_to_config(latents_mean=centre.tolist(), latents_std=std.tolist())
    padded = {"padding": "max_length", "max_length": TEXT_LENGTH, "return_tensors": "pt"}
    tokens = modules.tokenizer([*texts, ""], **padded)
    shift, scale = (value.view(-1, 1, 1, 1) for value in (centre, 1 / std))
    return Corpus(mean, logvar, shift, scale, tokens.input_ids, tokens.attention_mask)


def _conditioning(modules: Any, corpus: Corpus, rows: Tensor) -> Tensor:
    """What WanPipeline.encode_prompt builds, zero beyond each prompt's end."""
    ids, mask = corpus.ids[rows], corpus.mask[rows]
    embeds: Tensor = modules.text_encoder(ids, mask).last_hidden_state * mask[..., None]
    return embeds


def _velocity(transformer: Any, x: Tensor, sigma: Tensor, embeds: Tensor) -> Tensor:
    found: Tensor = transformer(
        hidden_states=x, timestep=sigma * 1000, encoder_hidden_states=embeds, return_dict=False
    )[0]
    return found


def flow_loss(modules: Any, corpus: Corpus, x0: Tensor, eps: Tensor, sigma: Tensor, rows: Tensor) -> Tensor:
    """Rectified flow."""
    x = noise(x0, eps, sigma)
    return functional.mse_loss(_velocity(modules.transformer, x, sigma, _conditioning(modules, corpus, rows)), eps - x0)


def guidance_loss(modules: Any, corpus: Corpus, teacher: Any, guidance: float, batch: tuple[Tensor, ...]) -> Tensor:
    """Distance to the teacher's guided velocity, v(empty) + guidance (v(prompt) - v(empty)), at noised true latents.

    Where a batch's prompt is itself empty this is the teacher's velocity, so what is learnt can still be guided.
    """
    x0, eps, sigma, rows = batch
    x = noise(x0, eps, sigma)
    with torch.no_grad():
        prompted = _conditioning(modules, corpus, rows)
        blank = _conditioning(modules, corpus, torch.full_like(rows, len(corpus.ids) - 1))
        both = _velocity(teacher, torch.cat([x, x]), torch.cat([sigma, sigma]), torch.cat([blank, prompted]))
        target = guide(both, guidance)
    return functional.mse_loss(_velocity(modules.transformer, x, sigma, prompted), target)


def _autoencoder(modules: Any, options: argparse.Namespace) -> None:
    """The stages before the transformer, or what they left in the work folder."""
    vae, work, seed, number = modules.vae, options.work, options.seed, min(options.videos, AUTOENCODER_VIDEOS)
    batch = AUTOENCODER_BATCH

    def frames() -> Tensor:
        """Each frame as a video of one: [number * F, 3, 1, 64, 64]."""
        return videos(number, seed)[0].transpose(1, 2).flatten(0, 1)[:, :, None]

    train_autoencoder(vae, frames, work / "frames", options.frame_steps, seed + 5)
    train_autoencoder(vae, lambda: videos(number, seed + 1)[0], work, options.autoencoder_steps, seed, batch)
    encode_videos(vae, work, seed, options.videos)
    train_decoder(vae, lambda: videos(number, seed + 4)[0], work, options.decoder_steps, seed + 3, batch)


def _one_rank(rank: int, options: argparse.Namespace, meeting: str) -> None:
    """One process of the transformer's training, on one thread; the first writes the bundle."""
    join(rank, options, meeting)
    modules = build_modules()
    _autoencoder(modules, options)
    corpus = _corpus(modules, options.work, options.seed, options.videos)
    ranks = options.processes

    def share(step: int) -> tuple[Tensor, ...]:
        return tuple(part[rank::ranks] for part in corpus.batch(options.seed, step))

    nets = torch.nn.ModuleList([modules.transformer, modules.text_encoder])
    stage = Stage("transformer", options.steps, LEARNING_RATE, options.save_every, rank, ranks)
    train_stage(nets, stage, options.work, lambda step: flow_loss(modules, corpus, *share(step)))
    teacher = deepcopy(modules.transformer).requires_grad_(False)
    stage = Stage("guidance", options.guidance_steps, DISTILLATION_RATE, options.save_every, rank, ranks)
    train_stage(
        modules.transformer, stage, options.work,
        lambda step: guidance_loss(modules, corpus, teacher, options.guidance, share(options.steps + step)),
    )  # fmt: skip
    if rank == 0:
        save_bundle(modules, options.out)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("data/pretrain-moving"), help="checkpoints and the log")
    parser.add_argument("--out", type=Path, required=True, help="the pipeline folder to write")
    parser.add_argument("--videos", type=int, default=16_000, help="that the transformer learns from")
    parser.add_argument("--frame-steps", type=int, default=1500, help="of the autoencoder, on single frames")
    parser.add_argument("--autoencoder-steps", type=int, default=4000, help="on videos")
    parser.add_argument("--decoder-steps", type=int, default=800)
    parser.add_argument("--steps", type=int, default=4000, help="of the transformer")
    parser.add_argument("--guidance", type=float, default=2.5, help="the scale that becomes the model's own")
    parser.add_argument("--guidance-steps", type=int, default=700, help="of learning it")
    add_options(parser)
    options = parser.parse_args(argv)
    (options.work / "frames").mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    _autoencoder(build_modules(), options)
    spawn(_one_rank, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
