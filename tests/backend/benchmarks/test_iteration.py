from dataclasses import replace

import torch

from backend.benchmarks import iteration


def test_the_papers_trees_have_the_papers_costs():
    """NFE a sample of BranchGRPO's Table 1, of which the last denoising step is never trained."""
    found = {name: config for name, config in iteration.configs().items() if name.startswith(("branch", "dance"))}
    plans = {name: config.method.plan(0, config.grid()) for name, config in found.items()}
    assert plans["dancegrpo, fraction 1.0"].forwards_per_prompt == 320
    assert plans["branchgrpo"].forwards_per_prompt == 203
    assert plans["branchgrpo, 81 leaves"].num_leaves == 81
    assert plans["dancegrpo, 81 samples"].num_leaves == 81


def test_variants_take_turns_and_are_timed_in_every_round(small, profile):
    threads = torch.get_num_threads()
    configs = {"tree": small(), "pruned": small("method.pruning={kind: parent_top1}")}
    found = iteration.measure(configs, replace(profile, rounds=3))
    assert {name: len(seconds) for name, seconds in found.seconds.items()} == {"tree": 3, "pruned": 3}
    assert min(min(seconds) for seconds in found.seconds.values()) > 0
    assert found.forwards["pruned"].trained < found.forwards["tree"].trained
    assert found.num_samples == {"tree": 8, "pruned": 8}
    assert torch.get_num_threads() == threads
    assert found.fingerprint == iteration.mark(configs, replace(profile, rounds=3))
    assert found.fingerprint != iteration.mark(configs, profile)
