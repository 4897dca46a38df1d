from dataclasses import replace

import numpy as np
import torch

from backend.benchmarks import distribution, features
from backend.benchmarks.distribution import Sampler, chains


def test_chains_have_the_trees_noise_and_share_nothing():
    tree = distribution.trained_tree()
    plan = tree.method.plan(0, tree.grid())
    flat = chains(plan, 5)
    assert flat.widths == [5] * (plan.num_steps + 1)
    assert torch.equal(flat.rates, plan.rates)
    assert not flat.shared_noise


def test_sets_hold_all_leaves_or_one_a_tree(small):
    config = small()
    sampler = Sampler(config, features.trained(64, 1, seed=0))
    plan = config.method.plan(0, config.grid())
    texts = [one.text for one in config.prompts.batch(0, 0)]
    leaves = sampler.leaves(plan, texts, 4)
    assert leaves.shape == (len(texts) * plan.num_leaves, features.WIDTH)
    ones = sampler.leaves(plan, texts, 4, first_only=True)
    # the i-th tree gives its i-th leaf
    expected = leaves.reshape(len(texts), plan.num_leaves, -1)[np.arange(len(texts)), np.arange(len(texts))]
    np.testing.assert_allclose(ones, expected, rtol=1e-4, atol=1e-5)


def test_distances_see_a_shift_and_not_a_second_draw():
    rng = np.random.default_rng(0)
    reference, null = rng.normal(size=(2, 300, 4))
    found = distribution.distances(reference, {"null": null, "shifted": rng.normal(size=(300, 4)) + 0.5})
    assert abs(found["null"].kid) < 0.2 * found["shifted"].kid
    assert abs(found["null"].mmd2) < 0.2 * found["shifted"].mmd2


def test_measurement_names_all_sets(monkeypatch, profile, small):
    monkeypatch.setattr(distribution, "EXTRACTOR", {"number": 64, "epochs": 1, "seed": 0})
    monkeypatch.setattr(distribution, "UNSEEN", 10)
    found = distribution.measure(small(), replace(profile, num_samples=8))
    assert found.num_samples == 8
    assert list(found.distances)[:2] == ["independent rollouts, another draw", "leaves of trees, one a tree"]
    assert all(np.isfinite([one.kid, one.kid_std, one.mmd2]).all() for one in found.distances.values())
