"""A linear Bradley-Terry reward of a base's denoising features, fitted to votes: `espalier votes fit`.

Shape legend
    M pairs, F features. P(first preferred) = sigmoid(w . (f_first - f_second) / scale).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from backend import media
from backend.device import pick
from backend.facts import environment
from backend.judged_groups import picture
from backend.preferences import judged_folder
from backend.preferences.standing_record import Estimate
from backend.preferences.wilson import clustered_share
from backend.rewards.denoising import Denoising
from backend.rewards.learned import Fitted, beside

FOLDS = 5
PENALTY = 30.0
TOGETHER = 64

Array = NDArray[np.float64]


def weights(difference: Array, penalty: float = PENALTY) -> Array:
    """w [F] that minimises sum log(1 + exp(-w . d)) + penalty / 2 |w|^2, of differences d [M, F], better less worse."""

    def objective(w: Array) -> tuple[float, Array]:
        margin = difference @ w
        value = np.logaddexp(0, -margin).sum() + penalty / 2 * w @ w
        return float(value), -difference.T @ _sigmoid(-margin) + penalty * w

    found: Array = minimize(objective, np.zeros(difference.shape[1]), jac=True, method="L-BFGS-B").x
    return found


def held_out(difference: Array, prompts: Sequence[str], rng: np.random.Generator) -> Estimate:
    """Accuracy on pairs of prompts that the fit has not seen, by 5-fold cross-validation over prompts (equal: half).

    Raises ValueError with fewer prompts than folds.
    """
    distinct = list(dict.fromkeys(prompts))
    if len(distinct) < FOLDS:
        raise ValueError(f"votes: decided pairs of {len(distinct)} prompts are too few to hold some out; judge more")
    fold = dict(zip(distinct, rng.permutation(len(distinct)) % FOLDS, strict=True))
    of_pair = np.array([fold[prompt] for prompt in prompts])
    right = np.zeros(len(prompts))
    for out in range(FOLDS):
        unseen = of_pair == out
        margin = difference[unseen] @ weights(difference[~unseen])
        right[unseen] = (1 + np.sign(margin)) / 2
    found = clustered_share([float(one) for one in right], prompts)
    assert found is not None
    return found


def fit(
    folder: Path,
    base: str,
    out: Path,
    set_id: str = "",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fitted:
    """Fit to a judged folder; write `out` and the .json beside it. Raises ValueError where votes do not suffice.

    set_id: of the review set, for the record. on_progress(done, total) counts pictures whose features are known.
    """
    from safetensors.torch import save

    pairs, files = judged_folder.read(folder)
    if not pairs.pairs:
        raise ValueError(f"votes: no pair in {folder} is decided; judge some more")
    device = pick()
    features = Denoising(base, device)
    prompts = [pair.prompt for pair in pairs.pairs]
    names = [pair.better for pair in pairs.pairs] + [pair.worse for pair in pairs.pairs]
    known: list[Tensor] = []
    for some, texts in _batches(names, prompts * 2):
        known.append(features(torch.stack([picture(files[name]) for name in some]), texts).double().cpu())
        on_progress(sum(map(len, known)), len(names))
    better, worse = torch.cat(known).chunk(2)
    every = torch.cat([better, worse])
    scale = every.std(0).clamp(min=1e-6)
    difference = ((better - worse) / scale).numpy()
    found = Fitted(
        base=base,
        folder=str(folder),
        set=judged_folder.archive(folder).name,
        set_id=set_id,
        fitted_at=datetime.now(UTC),
        pairs=len(pairs.pairs),
        votes=pairs.votes,
        left_out=pairs.left_out,
        accuracy=held_out(difference, prompts, np.random.default_rng(0)),
        made=environment(device),
    )
    stored: dict[str, Tensor] = {
        "weight": torch.from_numpy(weights(difference)),
        "mean": every.mean(0),
        "scale": scale,
    }
    media.write_atomically(beside(out), json.dumps(found.model_dump(mode="json"), indent=1).encode())
    media.write_atomically(out, save(stored))
    return found


def _batches(names: list[str], prompts: list[str]) -> list[tuple[list[str], list[str]]]:
    starts = range(0, len(names), TOGETHER)
    return [(names[at : at + TOGETHER], prompts[at : at + TOGETHER]) for at in starts]


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))
