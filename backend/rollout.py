"""Sample a plan: a batched forward for each level, over the nodes of all prompts, in parts where they are many.

Shape legend
    P prompts, W_t nodes at level t, D... latent dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from backend import flow
from backend.types import Conditioning, Plan, Policy, Rollout

OnLevel = Callable[[int, Tensor, Tensor | None], None]


@torch.no_grad()
def sample(
    policy: Policy,
    prompts: Sequence[str],
    plan: Plan,
    generators: Sequence[torch.Generator],
    cond: Conditioning | None = None,
    guidance: float | None = None,
    on_level: OnLevel | None = None,
    dtype: torch.dtype = torch.float32,
    micro_batch: int | None = None,
) -> Rollout:
    """Grow the plan's tree for every prompt; the rollout has no rewards yet.

    generators  one CPU generator a prompt. All noise of a prompt comes from its own, in a fixed order (roots, then each
                stochastic step), so a prompt's samples depend neither on the device nor on the prompts beside it
    cond        the encoded prompts, when they are already at hand
    on_level    called with (level, states [P, W, D...], predicted x0 [P, W, D...]) once a level has been evaluated, and
                with (T, leaves, None) at the end
    dtype       of the latents; they are stored as they were sampled, never rounded after their log-probability is known
    micro_batch most latents in one forward; None: a whole level

    A plan whose last rate is 0 ends in the predicted x0 itself; with a positive rate the leaves carry its noise.
    """
    if len(generators) != len(prompts):
        raise ValueError(f"generators: give one for each of the {len(prompts)} prompts, got {len(generators)}")
    cond = policy.encode(prompts) if cond is None else cond
    x = _roots(policy, plan, generators, dtype)
    states, logps = [x], []
    before: tuple[Tensor, float] | None = None
    for step in range(plan.num_steps):
        flat = x.flatten(0, 1)
        rows = torch.arange(len(prompts), device=x.device).repeat_interleave(x.shape[1])
        sigma = plan.sigmas[step]
        sigmas = sigma.to(flat).expand(len(flat))
        parts = torch.arange(len(flat), device=x.device).split(micro_batch or len(flat))
        v = torch.cat(
            [policy.velocity(flat[at], sigmas[at], cond.take(rows[at]), plan.weights, guidance) for at in parts]
        )
        x0 = flow.predict_x0(flat, v, sigma).view_as(x)
        if on_level is not None:
            on_level(step, x, x0)
        if plan.rates[step] > 0:
            x, logp = _noisy_step(plan, step, x, v.view_as(x), generators)
            before = None
        else:
            x, before = _ode_step(plan, step, x, v.view_as(x), x0, before)
            logp = x.new_full(x.shape[:2], math.nan)
        logps.append(logp)
        states = [*states, x] if plan.keep == "all" else [x]
    if on_level is not None:
        on_level(plan.num_steps, x, None)
    return Rollout(plan, tuple(prompts), cond, tuple(states), tuple(logps))


def _noisy_step(
    plan: Plan, step: int, x: Tensor, v: Tensor, generators: Sequence[torch.Generator]
) -> tuple[Tensor, Tensor]:
    """Children [P, W', D...] and log-probabilities [P, W'] of a step; NaN on its edges without noise."""
    parents, sigma, sigma_next = plan.parents[step].to(x.device), plan.sigmas[step], plan.sigmas[step + 1]
    mean, std = flow.mean_std(x.flatten(0, 1), v.flatten(0, 1), sigma, sigma_next, plan.rates[step], plan.noise)
    mean = mean.view_as(x)[:, parents]
    children = mean + std * _branch_noise(plan, step, generators, mean)
    logp = flow.log_prob(children.flatten(0, 1), mean.flatten(0, 1), std).view(children.shape[:2])
    noisy = plan.noisy(step).to(x.device)
    if not noisy.all():
        quiet, _ = flow.mean_std(x.flatten(0, 1), v.flatten(0, 1), sigma, sigma_next, 0.0, plan.noise)
        children = torch.where(noisy.view(-1, *(1,) * (x.dim() - 2)), children, quiet.view_as(x)[:, parents])
        logp = logp.masked_fill(~noisy, math.nan)
    return children, logp


def _ode_step(
    plan: Plan, step: int, x: Tensor, v: Tensor, x0: Tensor, before: tuple[Tensor, float] | None
) -> tuple[Tensor, tuple[Tensor, float]]:
    """Children [P, W', D...], and for a second-order step to come their predicted data and its sigma."""
    parents, sigma, sigma_next = plan.parents[step].to(x.device), plan.sigmas[step], plan.sigmas[step + 1]
    if plan.solver == "dpm2m" or (plan.solver == "dpm2m_tail" and not (plan.rates[step:] > 0).any()):
        moved = flow.dpm_2m_step(x, x0, before, sigma, sigma_next)
    else:
        moved = flow.sde_mean_std(x.flatten(0, 1), v.flatten(0, 1), sigma, sigma_next, 0.0)[0].view_as(x)
    return moved[:, parents], (x0[:, parents], float(sigma))


def _roots(policy: Policy, plan: Plan, generators: Sequence[torch.Generator], dtype: torch.dtype) -> Tensor:
    width = plan.widths[0]
    drawn = _draw(generators, (1 if plan.shared_noise else width, *policy.latent_shape), dtype)
    return drawn.expand(-1, width, *policy.latent_shape).to(policy.device)


def _branch_noise(plan: Plan, step: int, generators: Sequence[torch.Generator], mean: Tensor) -> Tensor:
    """Unit noise [P, W, D...] of the children at `step`.

    At a split, siblings share a part: xi_b = (xi_0 + s eta_b) / sqrt(1 + s^2) (BranchGRPO, eq. 2), each still N(0, I).
    The shared part is drawn afresh for every node and split: used twice on a path it would break the leaves' law.
    Inflated noise is s eta_b, as in the released code, and does break it.
    """
    parents, s = plan.parents[step], plan.spread
    own = _draw(generators, tuple(mean.shape[1:]), mean.dtype)
    if math.isinf(s) or len(parents.unique()) == len(parents):
        return own.to(mean.device)
    if plan.inflated:
        return (s * own).to(mean.device)
    shared = _draw(generators, (plan.widths[step], *mean.shape[2:]), mean.dtype)[:, parents]
    return ((shared + s * own) / math.sqrt(1 + s * s)).to(mean.device)


def _draw(generators: Sequence[torch.Generator], shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """One draw a prompt, because each prompt owns its stream: [P, *shape] on the CPU."""
    return torch.stack([torch.randn(shape, generator=generator, dtype=dtype) for generator in generators])
