"""A step's rollout, sampled some prompts at a time, so that the first can be judged while the last are sampled.

Shape legend
    P prompts, W_t nodes at level t, D... latent dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from backend.rollout import OnLevel, sample
from backend.types import Conditioning, Plan, Policy, Rollout


def sample_in_parts(
    policy: Policy,
    prompts: Sequence[str],
    plan: Plan,
    generators: Sequence[torch.Generator],
    cond: Conditioning,
    at_once: int,
    on_part: Callable[[range, Rollout], object],
    on_level: OnLevel | None = None,
    micro_batch: int | None = None,
) -> Rollout:
    """`sample` of all P prompts, at_once consecutive ones together. It differs by no more than what a smaller batch
    rounds otherwise, since a prompt's noise depends on its own generator alone.

    cond      of all P prompts
    on_part   called with the places of a part's prompts among all P, and its rollout, as soon as that is sampled
    on_level  sees the first part alone, which has the prompt whose tree is drawn
    """
    parts = []
    for start in range(0, len(prompts), at_once):
        at = range(start, min(start + at_once, len(prompts)))
        rows = torch.arange(at.start, at.stop, device=policy.device)
        part = sample(
            policy,
            prompts[at.start : at.stop],
            plan,
            generators[at.start : at.stop],
            cond if len(at) == len(prompts) else cond.take(rows),
            on_level=None if start else on_level,
            micro_batch=micro_batch,
        )
        on_part(at, part)
        parts.append(part)
    return parts[0] if len(parts) == 1 else _joined(parts, cond)


def _joined(parts: Sequence[Rollout], cond: Conditioning) -> Rollout:
    states = tuple(torch.cat(level) for level in zip(*(one.states for one in parts), strict=True))
    logps = tuple(torch.cat(level) for level in zip(*(one.logps for one in parts), strict=True))
    return Rollout(parts[0].plan, tuple(text for one in parts for text in one.prompts), cond, states, logps)
