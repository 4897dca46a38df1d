"""A user's function as a reward."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from backend.rewards.hook import Hook
from backend.rewards.judging import RewardFailed

MODULE = """
def blue(frames, prompts, metadata):
    means = frames[:, :, 2].mean(dim=(1, 2, 3))
    return [None if prompt == "pass" else float(mean) + told.get("bonus", 0)
            for mean, prompt, told in zip(means, prompts, metadata)]

def broken(frames, prompts, metadata):
    return 1 / 0

def short(frames, prompts, metadata):
    return [1.0]

def tensor(frames, prompts, metadata):
    return frames.sum(dim=(1, 2, 3, 4))

def words(frames, prompts, metadata):
    return ["good"] * len(prompts)

number = 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_users_reward.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def score(name: str, frames: Tensor | None = None) -> Tensor:
    shown = torch.stack([torch.full((1, 3, 2, 2), level) for level in (0.25, 0.5, 0.75)]) if frames is None else frames
    return Hook(function=f"a_users_reward:{name}").score(shown, ["a", "pass", "b"], [{}, {}, {"bonus": 1}])


def test_a_function_judges_and_may_pass() -> None:
    found = score("blue")
    assert found.dtype == torch.float64
    assert (float(found[0]), float(found[2])) == (0.25, 1.75)
    assert found[1].isnan()


def test_a_tensor_will_do() -> None:
    assert score("tensor").tolist() == [3.0, 6.0, 9.0]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("broken", "raised ZeroDivisionError: division by zero"),
        ("short", "returned 1 numbers for 3 samples"),
        ("words", "returned list, which is not 3 numbers"),
    ],
)
def test_a_function_that_fails_leaves_the_samples_unjudged(name: str, told: str) -> None:
    with pytest.raises(RewardFailed, match=told):
        score(name)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("no_such_module_here:score", "No module named"),
        ("a_users_reward:missing", "has no attribute"),
        ("a_users_reward:number", "is int, not a function"),
    ],
)
def test_a_function_that_is_not_there_ends_the_run_with_an_explanation(path: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Hook(function=path).score(torch.zeros(1, 1, 3, 2, 2), ["a"], [{}])


def test_only_module_colon_function_is_accepted() -> None:
    for wrong in ("module", "module.function", "a:b c", "os.system('x'):y"):
        with pytest.raises(ValueError, match="pattern"):
            Hook(function=wrong)
