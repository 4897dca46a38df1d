"""Final samples noised again and the errors of a velocity there: what the forward-process methods share.

Shape legend
    P prompts, Q of them this process's own, G samples of each, J pairs (noise level, noise) for each sample, N latents
    of one forward, D... latent dimensions, U units of a loss: what has to stay in one forward (a latent, a sample with
    its pairs, a group). Units are numbered by prompt first.
    x = (1 - sigma) x0 + sigma eps, and the velocity to match is eps - x0. Errors are float64 means over D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from backend import flow
from backend.types import Loss, Policy, Rollout, Weights

Prediction = Literal["v", "x0", "eps"]
FLOOR = 1e-5


@dataclass(frozen=True)
class Pairs:
    """What samples are noised with: sigma float64 [Q, G, J] and eps [Q, G, J, D...], expanded where a group shares."""

    sigma: Tensor
    eps: Tensor


@dataclass(frozen=True)
class Noised:
    """Latents between data and noise: x and target = eps - x0 [N, D...], sigma float64 [N], prompt Long[N]."""

    x: Tensor
    target: Tensor
    sigma: Tensor
    prompt: Tensor


def levels(candidates: Tensor, size: tuple[int, ...], stratified: bool, generator: torch.Generator) -> Tensor:
    """Noise levels float64 [*size], of which the last dimension is J, drawn uniformly from candidates [K].

    Stratified, the j-th of them comes from the j-th of J equal contiguous chunks of the candidates; a candidate on the
    border of two chunks belongs to each in proportion, so the J draws together are uniform for any J and K
    (V-GRPO, variance reduction 2).
    """
    place = torch.rand(size, generator=generator, dtype=torch.float64)
    if stratified:
        place = (torch.arange(size[-1]) + place) / size[-1]
    return candidates[(place * len(candidates)).long().clamp(max=len(candidates) - 1)].double()


def between(sigmas: Tensor, place: Tensor) -> Tensor:
    """The level at a fraction of the grid, 0 = data and 1 = noise, linear between the grid's levels [T+1]."""
    position = (1 - place.double()) * (len(sigmas) - 1)
    below = position.long().clamp(max=len(sigmas) - 2)
    return torch.lerp(sigmas[below].double(), sigmas[below + 1].double(), position - below)


def pairs(rollout: Rollout, sigma: Tensor, shared: bool, generator: torch.Generator) -> Pairs:
    """Noise for a rollout's samples at levels sigma [P, G or 1, J]; shared: the samples of a group get the same.

    The noise of all prompts is drawn, so that it does not depend on how many processes share them.
    """
    x0 = rollout.states[-1]
    group = x0.shape[1]
    shape = (len(sigma), 1 if shared else group, sigma.shape[-1], *x0.shape[2:])
    eps = rollout.of_own(torch.randn(shape, generator=generator, dtype=x0.dtype)).to(x0.device)
    sigma = rollout.of_own(sigma).to(x0.device)
    return Pairs(sigma.expand(-1, group, -1), eps.expand(-1, group, *(-1,) * (eps.dim() - 2)))


def noised(rollout: Rollout, drawn: Pairs, items: Tensor) -> Noised:
    """The samples of a rollout at items Long[N], each an index into [Q, G, J] laid out flat."""
    x0 = rollout.states[-1]
    prompt, sample, level = torch.unravel_index(items.to(x0.device), drawn.sigma.shape)
    data, eps, sigma = x0[prompt, sample], drawn.eps[prompt, sample, level], drawn.sigma[prompt, sample, level]
    return Noised(flow.noise(data, eps, sigma), eps - data, sigma, prompt)


def velocity(policy: Policy, rollout: Rollout, at: Noised, weights: Weights = "current") -> Tensor:
    """v [N, D...] without guidance; only the current weights carry gradient."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and weights == "current"):
        return policy.velocity(at.x, at.sigma.to(at.x), rollout.cond.take(at.prompt), weights, guidance=1)


def residual(v: Tensor, target: Tensor, sigma: Tensor, prediction: Prediction = "v") -> Tensor:
    """Prediction less truth, float64 [N, D...]: of the velocity, or of the data or the noise that it implies.

    x0hat - x0 = -sigma (v - target) and epshat - eps = (1 - sigma) (v - target), at the same x.
    """
    scale = {"v": torch.ones_like(sigma), "x0": -sigma, "eps": 1 - sigma}[prediction]
    return scale.reshape(-1, *(1,) * (v.dim() - 1)) * (v - target).double()


def mean_square(difference: Tensor) -> Tensor:
    """[N, D...] -> [N]."""
    return difference.double().square().flatten(1).mean(1)


def adaptive(difference: Tensor) -> Tensor:
    """mean d^2 / sg(mean |d|), [N, D...] -> [N]: an error whose size varies less with the level (V-GRPO, eq. 14).

    The denominator carries no gradient and is at least 1e-5 (DiffusionNFT's release).
    """
    size = difference.detach().abs().flatten(1).mean(1)
    return mean_square(difference) / size.clamp(min=FLOOR)


def units_per_batch(micro_batch: int, latents: int) -> int:
    """Units of `latents` latents in one forward. Raises ValueError when micro_batch holds not even one."""
    if micro_batch < latents:
        raise ValueError(
            f"micro_batch: {micro_batch} is too small, because this method needs {latents} latents together in one "
            f"forward; set it to {latents} or more, or train with fewer"
        )
    return micro_batch // latents


def deal(num_units: int, updates: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Units 0 .. num_units - 1 of all processes, shuffled and dealt to the updates of one rollout.

    Raises ValueError when an update would be empty.
    """
    if num_units < updates:
        raise ValueError(
            f"updates_per_rollout: {updates} updates cannot share the {num_units} parts of this rollout; lower it or "
            "sample more prompts"
        )
    return torch.randperm(num_units, generator=generator).tensor_split(updates)


def mine(units: Tensor, own: range) -> Tensor:
    """Those of all processes' units that are this one's, numbered from its first: Long[U]."""
    return units[(units >= own.start) & (units < own.stop)] - own.start


def accumulate(
    units: Tensor,
    per_batch: int,
    evaluate: Callable[[Tensor], tuple[Tensor, dict[str, Tensor]]],
    own: range | None = None,
) -> Iterator[Loss]:
    """One optimizer step: the mean loss over units, one backward for each `per_batch` of this process's.

    own       the units of this process, which are the only ones evaluated; None: all
    evaluate  takes units Long[U], numbered as by `mine`, and gives their losses [U] and detached values for metrics,
              whose means over this process's units come with the last Loss, as does train/loss
    """
    seen: dict[str, list[Tensor]] = {}
    here = units if own is None else mine(units, own)
    if not len(here):
        yield Loss(torch.zeros(()), {}, update=True, count=0)
        return
    batches = here.split(per_batch)
    for number, batch in enumerate(batches, start=1):
        loss, columns = evaluate(batch)
        for name, column in {"train/loss": loss.detach(), **columns}.items():
            seen.setdefault(name, []).append(column.double().flatten())
        last = number == len(batches)
        metrics = {name: float(torch.cat(values).mean()) for name, values in seen.items()} if last else {}
        yield Loss(loss.sum() / len(units), metrics, update=last, count=len(here))
