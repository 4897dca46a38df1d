"""Are two sets of samples from one distribution? Unbiased maximum mean discrepancies (Gretton et al. 2012).

Shape legend
    x [N, D], y [M, D] features of two sets, float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kernel = Callable[[Array, Array], Array]


def cubic(x: Array, y: Array) -> Array:
    """KID's kernel (x . y / D + 1)^3, [N, M] (Binkowski et al. 2018)."""
    found: Array = (x @ y.T / x.shape[1] + 1) ** 3
    return found


def rbf(bandwidth: float) -> Kernel:
    """exp(-|x - y|^2 / (2 bandwidth^2)), [N, M]."""

    def kernel(x: Array, y: Array) -> Array:
        found: Array = np.exp(-squared_distances(x, y) / (2 * bandwidth**2))
        return found

    return kernel


def squared_distances(x: Array, y: Array) -> Array:
    """|x_i - y_j|^2, [N, M], never below 0."""
    found: Array = np.maximum((x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T, 0)
    return found


def median_distance(x: Array, y: Array) -> float:
    """The usual bandwidth: the median of the distances between the sets, of at most 1,000 samples each."""
    return float(np.sqrt(np.median(squared_distances(x[:1000], y[:1000]))))


def mmd2(x: Array, y: Array, kernel: Kernel) -> float:
    """Unbiased MMD^2: mean of k(x, x') and of k(y, y') over distinct pairs, less twice the mean of k(x, y).

    Its expectation is 0 for equal distributions of independent samples, so it can be below 0.
    """
    if min(len(x), len(y)) < 2:
        raise ValueError(f"mmd2: {len(x)} and {len(y)} samples have no pairs; give two or more of each")
    within = [(one.sum() - np.trace(one)) / (len(one) * (len(one) - 1)) for one in (kernel(x, x), kernel(y, y))]
    return float(within[0] + within[1] - 2 * kernel(x, y).mean())


def kid(x: Array, y: Array, rng: np.random.Generator, subsets: int = 100, size: int = 1000) -> tuple[float, float]:
    """Mean and std of the MMD^2 with the cubic kernel over random subsets (all samples where a set is smaller)."""
    size = min(size, len(x), len(y))
    found = [
        mmd2(x[rng.choice(len(x), size, replace=False)], y[rng.choice(len(y), size, replace=False)], cubic)
        for _ in range(subsets)
    ]
    return float(np.mean(found)), float(np.std(found))
