"""How well a base model denoises a picture, with its prompt and without: features that know the prompt.

A base that was trained on captioned pictures has a lower error on a noised picture under the prompt that the picture
shows (Diffusion Classifier, arXiv 2303.16203). Nothing here was taught what a prompt of the Shapes world means.

Shape legend
    N pictures, L noise levels, K draws of noise (the same for all pictures), F = 2 L features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from backend import flow, matching
from backend.models.sd3 import SD3, SD3Conditioning, SD3Policy
from backend.models.weights import Lora

LEVELS = (0.4, 0.6, 0.8)
DRAWS = 4  # two, each with both signs; more tell more, for two forwards a level and draw
NOISE_SEED = 20260
TOGETHER = 128


class Denoising:
    """The features of one base, with its own frozen copy of the model."""

    def __init__(self, base: str, device: torch.device) -> None:
        """Raises ValueError when the base is not there."""
        smallest = Lora(rank=1, alpha=1)  # adapters that the reference weights, which are used, do not have
        self.policy: SD3Policy = SD3(base=base, tuning=smallest).load(device, seed=0)
        self.policy.module.requires_grad_(False)

    def __call__(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, 1, 3, H, W] in 0..1 and N prompts -> [N, F], with gradients where frames have them.

        The first L are log errors with the prompt, the others how far these are above the log errors without it.
        """
        with torch.set_grad_enabled(frames.requires_grad):
            latents, cond = self.policy.encode_frames(frames), self.policy.encode(prompts)
            rows = torch.arange(len(latents)).split(TOGETHER)
            return torch.cat([self._features(latents[part], cond.take(part)) for part in rows])

    def _features(self, latents: Tensor, cond: SD3Conditioning) -> Tensor:
        without = replace(
            cond,
            embeds=cond.negative_embeds.expand_as(cond.embeds),
            pooled=cond.negative_pooled.expand_as(cond.pooled),
        )
        told, untold = self._errors(latents, cond), self._errors(latents, without)
        return torch.cat([told, told - untold], dim=1)

    def _errors(self, latents: Tensor, cond: SD3Conditioning) -> Tensor:
        """log mean (v - (eps - x0))^2 over the K draws and the latent, [N, L]."""
        drawn = torch.Generator().manual_seed(NOISE_SEED)
        columns = []
        for level in LEVELS:
            sigma = latents.new_full((len(latents),), level)
            half = torch.randn(DRAWS // 2, *latents.shape[1:], generator=drawn).to(latents)
            errors = [self._error(latents, sign * eps, sigma, cond) for eps in half for sign in (1, -1)]
            columns.append(torch.stack(errors).mean(0).log())
        return torch.stack(columns, dim=1)

    def _error(self, latents: Tensor, eps: Tensor, sigma: Tensor, cond: SD3Conditioning) -> Tensor:
        """mean (v - (eps - x0))^2 under one noise eps [D...], float64 [N]."""
        x = flow.noise(latents, eps.expand_as(latents), sigma)
        v = self.policy.velocity(x, sigma, cond, "reference", guidance=1)
        return matching.mean_square(v - (eps - latents))
