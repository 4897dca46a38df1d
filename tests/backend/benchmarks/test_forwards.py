import torch

from backend.benchmarks.forwards import count
from backend.device import pick
from backend.plan import describe


def test_counted_forwards_are_those_of_the_plan(small):
    config = small()
    planned = describe(config)
    found = count(config, config.model.load(pick(), 0))
    assert found.rollout == planned.forwards_per_step
    assert found.trained == planned.training_forwards * config.prompts.per_step
    assert found.evaluated == 0
    assert found.total == found.rollout + found.trained


def test_guidance_counts_twice(small):
    config = small("model.guidance=2.0")
    found = count(config, config.model.load(pick(), 0))
    assert found.rollout == describe(small()).forwards_per_step * 2
    assert torch.is_grad_enabled()
