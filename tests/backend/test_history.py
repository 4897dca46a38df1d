"""Statistics of each prompt: what they are made of, how long they last, and that they survive a checkpoint."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor

from backend import history
from backend.history import PromptHistory


def table(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_a_prompt_with_few_rewards_is_compared_with_the_whole_step() -> None:
    found = PromptHistory(16).advantages(["a", "b"], table([0.0, 2.0], [4.0, 6.0]), min_count=3)
    # mean 3, biased variance (9 + 1 + 1 + 9) / 4 = 5
    torch.testing.assert_close(found, table([-3, -1], [1, 3]) / (5**0.5 + 1e-6), rtol=0, atol=1e-12)


def test_a_prompt_with_enough_is_compared_with_itself_this_step_included() -> None:
    memory = PromptHistory(16)
    memory.extend("a", [1.0, 3.0])
    found = memory.advantages(["a", "b"], table([5.0, 7.0], [100.0, 100.0]), min_count=4)
    # 1 3 5 7: mean 4, biased variance 5
    torch.testing.assert_close(found[0], table([1, 3])[0] / (5**0.5 + 1e-6), rtol=0, atol=1e-12)


def test_pitfall_19_a_prompt_that_stands_twice_in_a_step_is_one_prompt() -> None:
    found = PromptHistory(16).advantages(["a", "a"], table([0.0, 2.0], [4.0, 6.0]), min_count=4)
    torch.testing.assert_close(found, table([-3, -1], [1, 3]) / (5**0.5 + 1e-6), rtol=0, atol=1e-12)


def test_pitfall_20_it_lasts_over_steps_and_forgets_the_oldest_reward() -> None:
    memory = PromptHistory(3)
    for reward in (1.0, 2.0, 3.0, 4.0):
        memory.advantages(["a"], table([reward]), min_count=1)
    assert list(memory.rewards["a"]) == [2.0, 3.0, 4.0]


def test_equal_rewards_give_zero() -> None:
    found = PromptHistory(16).advantages(["a"], table([0.1] * 7), min_count=1)
    torch.testing.assert_close(found, table([0.0] * 7), rtol=0, atol=1e-9)


def test_the_prompt_seen_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_PROMPTS", 2)
    memory = PromptHistory(4)
    for prompt in ("a", "b", "a", "c"):
        memory.extend(prompt, [0.0])
    assert list(memory.rewards) == ["a", "c"]


def test_it_survives_a_checkpoint() -> None:
    memory, copy = PromptHistory(3), PromptHistory(3)
    memory.advantages(["a", "b"], table([0.25, 2.0], [4.0, 6.0]), min_count=1)
    file = io.BytesIO()
    torch.save(memory.state_dict(), file)
    file.seek(0)
    copy.load_state_dict(torch.load(file, weights_only=True))
    later = table([1.0, 2.0], [3.0, 4.0])
    assert torch.equal(copy.advantages(["b", "a"], later, 4), memory.advantages(["b", "a"], later, 4))
    assert copy.rewards == memory.rewards


def test_pitfall_25_rewards_that_failed_are_not_remembered_and_become_0() -> None:
    failed = float("nan")
    memory = PromptHistory(16)
    found = memory.advantages(["a", "b"], table([0.0, failed, 2.0], [4.0, 6.0, failed]), min_count=3)
    expected = table([-3, 0, -1], [1, 3, 0]) / (5**0.5 + 1e-6)  # of 0 2 4 6, as above
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert list(memory.rewards["a"]) == [0.0, 2.0]
    nothing = memory.advantages(["c"], table([failed, failed]), min_count=1)
    assert torch.equal(nothing, table([0.0, 0.0]))
