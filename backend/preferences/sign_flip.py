"""An exact test of whether two models differ, for votes that come several to a prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.stats import binom


def sign_flip(net: Sequence[int]) -> float:
    """Two-sided p-value of Fisher's randomisation test (1935) on the net votes of each prompt.

    net: one whole number a prompt, votes for the one model minus votes for the other. Were the models equal, each could
    as well have had the other sign; p is the chance that flipped at random, with 1/2 each, their sum is as far from 0.
    With one vote a prompt this is the exact sign test. 1 where there are no votes.
    """
    reach = 0
    chances = np.ones(1)  # of the sums -reach .. reach
    for size, count in Counter(abs(one) for one in net if one).items():
        # the count prompts of this size give size * (2 k - count), k ~ Binomial(count, 1/2)
        part = np.zeros(2 * size * count + 1)
        part[:: 2 * size] = binom.pmf(np.arange(count + 1), count, 0.5)
        chances = np.convolve(chances, part)
        reach += size * count
    distance = np.abs(np.arange(-reach, reach + 1))
    return min(1.0, float(chances[distance >= abs(sum(net))].sum()))
