"""Do leaves of a branching rollout have the distribution of independent rollouts? KID and MMD^2 of their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backend import media
from backend.benchmarks import features, two_sample
from backend.benchmarks.iteration import one_thread
from backend.benchmarks.jobs import base_digest, chosen, fingerprint
from backend.benchmarks.records import Distance, Distribution
from backend.benchmarks.variants import Profile
from backend.config import RunConfig, load, preset_path
from backend.device import pick
from backend.evaluate import generator
from backend.facts import environment
from backend.rollout import sample
from backend.types import Plan

FILE = "distribution.json"
COMMAND = "espalier bench methods --part distribution"
TREES_AT_ONCE = 16
EXTRACTOR = {"number": 8000, "epochs": 6, "seed": 0}
UNSEEN = 1000


def chains(plan: Plan, number: int) -> Plan:
    """The same noise at every step, for `number` samples that share nothing but their prompt."""
    return replace(plan, parents=(torch.arange(number),) * plan.num_steps, shared_noise=False)


def mark(config: RunConfig, profile: Profile) -> str:
    data = chosen(config, "model", "method", "sampling", "prompts")
    return fingerprint([data, profile.num_samples, EXTRACTOR, base_digest(config.model.folder())])


def trained_tree() -> RunConfig:
    """The tree that the preset trains with: its few steps carry more noise each than those of a long grid."""
    return load(preset_path("shapes-branchgrpo"))


class Sampler:
    """Features of the samples of a plan."""

    def __init__(self, config: RunConfig, extractor: features.Extractor) -> None:
        self.policy: Any = config.model.load(pick(), config.seed)
        self.extractor = extractor

    def leaves(self, plan: Plan, prompts: Sequence[str], stream: int, first_only: bool = False) -> NDArray[np.float64]:
        """[N, 64]: all leaves of each prompt in turn, or a leaf a prompt, each time another. stream: of the noise."""
        found = []
        for start in range(0, len(prompts), TREES_AT_ONCE):
            texts = prompts[start : start + TREES_AT_ONCE]
            generators = [generator(stream, start + i) for i in range(len(texts))]
            leaves = sample(self.policy, texts, replace(plan, keep="last"), generators).states[-1]
            if first_only:
                rows = torch.arange(len(texts))
                leaves = leaves[rows, (start + rows) % plan.num_leaves][:, None]
            frames = media.quantise(self.policy.decode(leaves.flatten(0, 1)))
            found.append(self.extractor.features(frames[:, 0].float().cpu()))
        return np.concatenate(found)


def measure(config: RunConfig, profile: Profile) -> Distribution:
    """Distances of each set from one set of independent rollouts of the same prompts; a second such set is the null."""
    with one_thread():
        extractor = features.trained(**EXTRACTOR)
        sampler, tree = Sampler(config, extractor), config.method.plan(0, config.grid())
        group = tree.num_leaves
        number = -(-profile.num_samples // group)
        prompts = [one.text for step in range(number) for one in config.prompts.batch(config.seed, step)][:number]
        repeated = [text for text in prompts for _ in range(group)]
        flat = chains(tree, group)
        sets = {
            "independent rollouts, another draw": sampler.leaves(flat, prompts, 2),
            "leaves of trees, one a tree": sampler.leaves(tree, repeated, 3, first_only=True),
            "leaves of trees, all": sampler.leaves(tree, prompts, 4),
            "independent rollouts from shared noise": sampler.leaves(replace(flat, shared_noise=True), prompts, 5),
        }
        reference = sampler.leaves(flat, prompts, 1)
        score = features.accuracy(extractor, UNSEEN, seed=1)
        facts = environment(pick())
    return Distribution(
        fingerprint=mark(config, profile),
        command=COMMAND,
        facts=facts,
        num_samples=len(reference),
        accuracy=round(score, 4),
        distances=distances(reference, sets),
    )


def distances(reference: NDArray[np.float64], sets: dict[str, NDArray[np.float64]]) -> dict[str, Distance]:
    """Of each set from the reference; the first set, the null, also sets the bandwidth of the RBF kernel.

    Features are standardised by the reference's mean and std, so that KID's kernel sees dot products of about d.
    """
    mean, std = reference.mean(0), reference.std(0) + 1e-6
    reference, sets = (reference - mean) / std, {name: (one - mean) / std for name, one in sets.items()}
    null = next(iter(sets.values()))
    kernel = two_sample.rbf(two_sample.median_distance(reference, null))
    found = {}
    for name, one in sets.items():
        kid, kid_std = two_sample.kid(reference, one, np.random.default_rng(0))
        found[name] = Distance(kid=kid, kid_std=kid_std, mmd2=two_sample.mmd2(reference, one, kernel))
    return found
