"""Intervals of shares: Wilson's (1927), and the same for votes that come several to a prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm, t

from backend.preferences.standing_record import Estimate

LEVEL = 0.95
SIGNIFICANT = 0.05


def share(successes: int, count: int) -> Estimate | None:
    """Share of independent successes; None where count is 0."""
    if count == 0:
        return None
    interval = binomtest(successes, count).proportion_ci(LEVEL, method="wilson")
    return Estimate(value=successes / count, low=interval.low, high=interval.high)


def clustered_share(scores: Sequence[float], clusters: Sequence[str]) -> Estimate | None:
    """Mean of scores in [0, 1], of which those of one cluster depend on each other; None without scores.

    Wilson's interval, for as many independent votes as these are worth (`_effective_count`).
    """
    if not len(scores):
        return None
    values = np.asarray(scores, dtype=np.float64)
    _, cluster = np.unique(np.asarray(clusters), return_inverse=True)
    mean = float(values.mean())
    low, high = _wilson(mean, _effective_count(values, cluster))
    return Estimate(value=mean, low=low, high=high)


def _effective_count(values: NDArray[np.float64], cluster: NDArray[np.intp]) -> float:
    """n where no cluster has two values; else n over the design effect, at least 1, of the mean (Kish 1965).

    That is the variance of the mean by clusters over p (1 - p) / n. The count is then lowered as far as Student's
    quantile, whose degrees of freedom are those of the clusters, is above the normal one (Korn and Graubard 1998).
    Where all values are equal the variance says nothing, and each cluster counts as one.
    """
    count, num_clusters = len(values), int(cluster.max()) + 1
    mean = float(values.mean())
    if num_clusters == count:
        return count
    if num_clusters == 1:
        return 1
    spread = count * mean * (1 - mean)
    if spread == 0:
        return num_clusters
    residuals = np.bincount(cluster, values - mean)
    effect = max(1.0, float((residuals**2).sum()) * num_clusters / (num_clusters - 1) / spread)
    tail = (1 + LEVEL) / 2
    return count / effect * float(norm.ppf(tail) / t.ppf(tail, num_clusters - 1)) ** 2


def _wilson(mean: float, count: float) -> tuple[float, float]:
    """Wilson's formula, for a count that need not be whole."""
    z = float(norm.ppf((1 + LEVEL) / 2))
    shrink = 1 + z**2 / count
    centre = (mean + z**2 / (2 * count)) / shrink
    half = z / shrink * float(np.sqrt(mean * (1 - mean) / count + z**2 / (4 * count**2)))
    return max(0.0, centre - half), min(1.0, centre + half)
