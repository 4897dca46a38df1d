"""Pretrains the bundled base model: `python -m backend.shapes.pretrain`.

Five stages, each seeded, logged to WORK/log.jsonl and resumed from WORK when cut off:
1. autoencoder: an AutoencoderKL that packs 64x64 pictures into 8x8x8 latents;
2. latents of a fixed set of pictures, computed once;
3. decoder: its half of the autoencoder goes on learning, from latents with some noise, while the encoder stays;
4. transformer: an SD3Transformer2DModel (flow matching) together with its two CLIP text encoders, from scratch;
5. guidance: the transformer learns to give by itself what classifier-free guidance gives.
The result is a StableDiffusion3Pipeline folder that `DiffusionPipeline.from_pretrained` loads.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from torch import Tensor

from backend.shapes import prompts, render
from backend.shapes.bundle import BASE, TEXT_LENGTH, build_modules, save_bundle
from backend.shapes.pretrain_autoencoder import normalised, train_autoencoder, train_decoder
from backend.shapes.pretrain_stage import add_options, join, log_stage, spawn
from backend.shapes.pretrain_transformer import Corpus, distil_guidance, train_transformer

AUTOENCODER_PICTURES = 12_000


def pictures(number: int, seed: int, anywhere: bool = False) -> tuple[Tensor, list[str]]:
    """Truths of random training prompts: uint8 [number, 3, 64, 64] and their texts."""
    rng = np.random.default_rng(seed)
    chosen = [prompts.LISTS.training(rng) for _ in range(number)]
    stack = np.stack([render.render(item.scene, rng, anywhere) for item in chosen])
    return torch.from_numpy(stack).permute(0, 3, 1, 2).contiguous(), [item.text for item in chosen]


@torch.no_grad()
def encode_pictures(vae: Any, work: Path, seed: int, number: int) -> tuple[Tensor, Tensor, list[str]]:
    """Means and log-variances [number, 8, 8, 8] float16 of the training pictures, and their texts."""
    done = work / "latents.pt"
    if not done.exists():
        started = time.time()
        data, texts = pictures(number, seed + 2)
        parts = [vae.encode(normalised(chunk)).latent_dist for chunk in data.split(100)]
        mean = torch.cat([part.mean for part in parts])
        logvar = torch.cat([part.logvar for part in parts])
        torch.save({"mean": mean.half(), "logvar": logvar.half(), "texts": texts}, done)
        log_stage(work, stage="latents", pictures=number, seconds=round(time.time() - started, 1))
    stored = torch.load(done, weights_only=True)
    return stored["mean"], stored["logvar"], stored["texts"]


def _corpus(modules: Any, work: Path, seed: int, number: int) -> Corpus:
    """The corpus; its normalisation becomes the autoencoder's shift and scaling factors."""
    mean, logvar, texts = encode_pictures(modules.vae, work, seed, number)
    shift, scale = float(mean.float().mean()), 1 / float(mean.float().std())
    modules.vae.register_to_config(shift_factor=shift, scaling_factor=scale)
    padded = {"padding": "max_length", "max_length": TEXT_LENGTH, "return_tensors": "pt"}
    ids, empty = (modules.tokenizer(text, **padded).input_ids for text in (texts, ""))
    return Corpus(mean, logvar, ids, empty, shift, scale)


def _autoencoder(modules: Any, options: argparse.Namespace) -> None:
    """The stages before the transformer, or what they left in the work folder.

    The autoencoder learns from shapes placed anywhere, in more sizes than prompts have, so that no latent is out of its
    reach; its decoder then from the pictures that prompts ask for.
    """
    number = min(options.pictures, AUTOENCODER_PICTURES)
    vae, work, seed = modules.vae.to(memory_format=torch.channels_last), options.work, options.seed
    train_autoencoder(vae, lambda: pictures(number, seed + 1, anywhere=True)[0], work, options.autoencoder_steps, seed)
    encode_pictures(vae, work, seed, options.pictures)
    train_decoder(vae, lambda: pictures(number, seed + 4)[0], work, options.decoder_steps, seed + 3)


def _one_rank(rank: int, options: argparse.Namespace, meeting: str) -> None:
    """One process of the transformer's training, on one thread; the first writes the bundle."""
    join(rank, options, meeting)
    modules = build_modules()
    _autoencoder(modules, options)
    corpus = _corpus(modules, options.work, options.seed, options.pictures)
    train_transformer(modules, corpus, options, rank)
    distil_guidance(modules, corpus, options, rank)
    if rank == 0:
        save_bundle(modules, options.out)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("data/pretrain"), help="checkpoints and the log")
    parser.add_argument("--out", type=Path, default=BASE, help="the pipeline folder to write")
    parser.add_argument("--pictures", type=int, default=60_000, help="that the transformer learns from")
    parser.add_argument("--autoencoder-steps", type=int, default=900)
    parser.add_argument("--decoder-steps", type=int, default=700)
    parser.add_argument("--steps", type=int, default=10_000, help="of the transformer")
    parser.add_argument("--guidance", type=float, default=1.25, help="the scale that becomes the model's own")
    parser.add_argument("--guidance-steps", type=int, default=800, help="of learning it; 0 leaves the model as it is")
    add_options(parser)
    options = parser.parse_args(argv)
    options.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    _autoencoder(build_modules(), options)
    spawn(_one_rank, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
