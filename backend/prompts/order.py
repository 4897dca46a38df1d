"""Which prompts of a list a training step uses: a pure function of (seed, step)."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
STREAM = 2


def places(num: int, per_step: int, seed: int, step: int) -> list[int]:
    """The places, in a list of `num` prompts, of the `per_step` prompts of a step.

    Steps go through permutations of the list, one an epoch, so that at any step no prompt was used twice more than
    another. A step that ends one epoch and begins the next has no place twice, as long as num >= per_step.
    """
    found: list[int] = []
    at, end = step * per_step, (step + 1) * per_step
    while at < end:
        epoch, first = divmod(at, num)
        taken = epoch_order(num, per_step, seed, epoch)[first : first + end - at]
        found += taken.tolist()
        at += len(taken)
    return found


def epoch_order(num: int, per_step: int, seed: int, epoch: int) -> Places:
    """A permutation of range(num). What the step that begins it took from the epoch before does not come first."""
    # The epoch before alters the first per_step places alone, so with twice as many prompts its own end is as drawn
    cycle = per_step // gcd(num, per_step)
    start = max(epoch - 1, 0) if num >= 2 * per_step else epoch - epoch % cycle
    order = np.arange(0)
    for one in range(start, epoch + 1):
        drawn = np.random.default_rng([seed, one, STREAM]).permutation(num)
        num_taken = one * num % per_step
        if num < per_step or num_taken == 0:
            order = drawn
            continue
        taken = order[max(num - num_taken, 0) :]
        first = drawn[~np.isin(drawn, taken)][: per_step - num_taken]
        order = np.concatenate([first, drawn[~np.isin(drawn, first)]])
    return order
