"""T48: a run does not depend on how many processes share its prompts; what else crosses between them, and failures."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from backend import checkpoint, events, flow, ranks, train
from backend.config import RunConfig, dump, parse
from backend.events import EvaluationDone, RunEnded, RunStarted, SamplesSaved, StepDone, TreeDrawn
from backend.methods.awm import AWM
from backend.methods.branchgrpo import BranchGRPO
from backend.methods.dancegrpo import DanceGRPO
from backend.methods.ddpo import DDPO
from backend.methods.dgpo import DGPO
from backend.methods.dpo import DPO
from backend.methods.flowgrpo import FlowGRPO
from backend.methods.grpoguard import GRPOGuard
from backend.methods.mixgrpo import MixGRPO
from backend.methods.nft import NFT
from backend.methods.refl import ReFL
from backend.methods.tempflow import TempFlow
from backend.methods.vgrpo import VGRPO
from backend.types import Alone, Credit, Loss, Rollout, share
from tests.backend.toy import Perceptron, sampled
from tests.backend.two_processes import launch

PROMPTS = ("one", "three", "a long one", "the longest of them all")
TWICE = {"updates_per_rollout": 2, "micro_batch": 7}
METHODS: list[Any] = [
    BranchGRPO(split_steps=(0, 2), pruning={"kind": "parent_top1"}, **TWICE),
    DanceGRPO(group_size=3, advantage_mode="all", **TWICE),
    FlowGRPO(group_size=3, **TWICE),
    MixGRPO(group_size=3, window=2, **TWICE),
    TempFlow(branches=2, **TWICE),
    GRPOGuard(group_size=3, clip_range=0.1, **TWICE),
    DDPO(group_size=3, history=4, min_count=2, **TWICE),
    DGPO(group_size=3, advantages="global_std", train_timesteps=2, **TWICE),
    VGRPO(group_size=3, clip_range=0.5, kl_weight=0.3, **TWICE),
    NFT(group_size=3, **TWICE),
    AWM(group_size=3, train_timesteps=3, **TWICE),
    DPO(group_size=3, micro_batch=4),
    ReFL(group_size=3, start=0.4, kl_weight=0.3, margin=1.5, micro_batch=4),
]


def judge(frames: Tensor, prompts: Sequence[str]) -> Tensor:
    """The first pixel, weighted by the prompt's length, for methods that train on the reward's gradient."""
    return frames.flatten(1)[:, 0].double() * torch.tensor([float(len(prompt)) for prompt in prompts])


def part(rollout: Rollout, rank: int) -> Rollout:
    """What process `rank` of two holds of a rollout."""
    own = share(len(rollout.prompts), Alone(rank, 2))
    states = tuple(state[own.start : own.stop] for state in rollout.states)
    cond = rollout.cond.take(torch.tensor(list(own)))
    return replace(rollout, states=states, cond=cond, ranks=Alone(rank, 2))


def shaken() -> Perceptron:
    """A policy whose current, old and reference weights differ."""
    policy, generator = Perceptron(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in (policy.copies["old"].values(), policy.copies["reference"].values()):
            for value in weights:
                value.add_(0.05 * torch.randn(value.shape, generator=generator, dtype=value.dtype))
    return policy


def gradients(method: Any, rollout: Rollout, credit: Credit) -> tuple[list[Tensor], list[Loss]]:
    """The gradient of each update, and the losses that end them."""
    policy, found, ends = shaken(), [], []
    for loss in method.losses(policy, rollout, credit, 5):
        if loss.value.requires_grad:
            loss.value.backward()
        if loss.update:
            found.append(policy.gradient())
            policy.zero_grad()
            ends.append(loss)
    return found, ends


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_T48_two_simulated_processes_have_the_gradients_of_one(method: Any) -> None:
    rollout = sampled(Perceptron(), method.plan(5, flow.grid(5)), PROMPTS)
    rewards = rollout.rewards.clone()
    rewards[1, 0] = math.nan
    rollout = replace(rollout, rewards=rewards, parts={"mean": rewards}, judge=judge)
    credit = method.credit(rollout, 5)
    whole, told = gradients(method, rollout, credit)
    assert all(gradient.abs().max() > 1e-6 for gradient in whole)
    halves = [gradients(method, part(rollout, rank), credit) for rank in (0, 1)]
    assert [len(found) for found, _ in halves] == [len(whole)] * 2
    for update, expected in enumerate(whole):
        summed = halves[0][0][update] + halves[1][0][update]
        torch.testing.assert_close(summed, expected, rtol=1e-10, atol=1e-12)
    pooled = ranks.pooled([[(loss.count, loss.metrics) for loss in ends] for _, ends in halves])
    for found, loss in zip(pooled, told, strict=True):
        assert found == pytest.approx(loss.metrics, rel=1e-9, abs=1e-12)


def test_a_process_without_a_share_of_an_update_still_ends_it() -> None:
    method = BranchGRPO(split_steps=(0,), updates_per_rollout=4)
    rollout = sampled(Perceptron(), method.plan(0, flow.grid(3)), PROMPTS[:2])
    credit = method.credit(rollout, 0)
    ends = [gradients(method, part(rollout, rank), credit)[1] for rank in (0, 1)]
    assert [len(one) for one in ends] == [4, 4]
    assert any(loss.count == 0 and not loss.value.requires_grad for one in ends for loss in one)


def test_prompts_must_divide_by_the_processes() -> None:
    plain = {"method": {"name": "dgpo"}, "prompts": {"source": "shapes-train", "per_step": 4}}
    assert parse(plain | {"processes": 2}).processes == 2
    with pytest.raises(ValueError, match=r"processes: 3 processes cannot share prompts.per_step = 4 evenly"):
        parse(plain | {"processes": 3})


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    ranks.check_devices(2)
    with pytest.raises(ValueError, match="processes: 4 of them need a GPU each, and 2 can be seen here"):
        ranks.check_devices(4)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    ranks.check_devices(4)


def test_a_launcher_that_started_another_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match=r"the run asks for 2, but its launcher started 4; .*--set processes=4"):
        ranks.join(2)


def test_buckets_hold_one_dtype_and_at_most_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "BUCKET", 40)
    tensors = [torch.zeros(4), torch.zeros(6), torch.zeros(1), torch.zeros(1).double(), torch.zeros(99)]
    assert [[one.numel() for one in bucket] for bucket in ranks.buckets(tensors)] == [[4, 6], [1], [1], [99]]


# Real processes: everything below trains on the bundled base, in one launch
MINUTES = pytest.mark.timeout(1200)

JUDGES = """
import os
def some(frames, prompts, metadata):
    level = frames.flatten(1).mean(1)
    # rounded, as one pixel whose level rounding moves would show in advantages of so similar pictures
    rewards = [round(float(one), 3) for one in level]
    return [None if (i - prompts.index(prompts[i])) % 3 == 0 else one for i, one in enumerate(rewards)]
def none_of_one_process(frames, prompts, metadata):
    if os.environ.get("RANK") == "1":
        raise ValueError("the judge of process 1 is ill")
    return frames.flatten(1).mean(1)
if os.environ.get("RANK") != "1":
    only_on_process_0 = none_of_one_process
"""
SHORT = {
    "steps": 2,
    "model": {"family": "sd3", "tuning": {"kind": "lora", "rank": 4, "alpha": 8}},
    "sampling": {"steps": 4, "evaluation_steps": 2},
    "prompts": {"source": "shapes-train", "per_step": 2},
    "evaluation": {"limit": 3, "seeds": [1], "shown": 3},  # process 0 has one of them, process 1 two
    "logging": {"checkpoint_every": 1, "samples_every": 10, "tree_every": 2},
}
RUNS: dict[str, dict[str, Any]] = {
    "branchgrpo": {"method": {"name": "branchgrpo", "split_steps": [0, 1], "updates_per_rollout": 2}},
    "dgpo": {
        "method": {"name": "dgpo", "group_size": 4, "train_timesteps": 2, "advantages": "global_std"},
        "rewards": [{"name": "hook", "function": "judges:some"}],
    },
    "flowgrpo": {
        "method": {"name": "flowgrpo", "group_size": 4, "advantage_mode": "global_std"},
        "optimizer": {"ema_decay": 0.9},
    },
    "dpok": {"method": {"name": "dpok", "group_size": 4, "updates_per_rollout": 2, "value_batch": 5}},
}
ILL = {"half": "none_of_one_process", "torn": "only_on_process_0"}


def config_of(name: str) -> RunConfig:
    return parse(SHORT | RUNS[name])


def alone(config: RunConfig, folder: Path, resume: bool = False) -> list[Any]:
    folder.mkdir(exist_ok=True)
    seen: list[Any] = []
    assert train.train(config, folder, seen.append, lambda: False, resume) == "done"
    return seen


def steps(seen: list[Any]) -> list[dict[str, float | None]]:
    """The metrics of each step, without times."""
    done = [one.metrics for one in seen if isinstance(one, StepDone)]
    return [{name: value for name, value in one.items() if not name.startswith(("time/", "memory/"))} for one in done]


def weights(folder: Path, step: int) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / f"checkpoint-{step}" / checkpoint.WEIGHTS)


def assert_same_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-5)


def assert_same_evaluations(told: list[Any], seen: list[Any]) -> None:
    """To rounding, as a batch of another size rounds otherwise; samples in the same order."""
    reports = [[one.report for one in each if isinstance(one, EvaluationDone)] for each in (told, seen)]
    for found, expected in zip(*reports, strict=True):
        assert (found["step"], found["num_prompts"], found["seeds"]) == (expected["step"], 3, [1])
        assert found["strict_accuracy"] == expected["strict_accuracy"]
        assert found["quality"] == pytest.approx(expected["quality"], abs=1e-4)
    saved = [[one for one in each if isinstance(one, SamplesSaved)] for each in (told, seen)]
    for found, expected in zip(*saved, strict=True):
        assert (found.step, found.collection) == (expected.step, expected.collection)
        for one, other in zip(found.samples, expected.samples, strict=True):
            assert (one.prompt_index, one.seed, one.task) == (other.prompt_index, other.seed, other.task)
            assert one.scores == pytest.approx(other.scores, abs=1e-4)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """The folders of a run of one process and of the same on two: both("dgpo")."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    (two / "judges.py").write_text(JUDGES)
    for name in RUNS:
        (two / f"{name}.yaml").write_text(dump(config_of(name)))
    for name, function in ILL.items():
        hook = {"rewards": [{"name": "hook", "function": f"judges:{function}"}], "steps": 1}
        (two / f"{name}.yaml").write_text(yaml.safe_dump(SHORT | RUNS["dgpo"] | hook))
    alone(config_of("branchgrpo"), one / "branchgrpo")
    shutil.copytree(one / "branchgrpo", two / "resumed", ignore=shutil.ignore_patterns("checkpoint-2", "events.jsonl"))
    (two / "resumed.yaml").write_text(dump(config_of("branchgrpo")))
    launch(two)
    return lambda name: (one / name, two / name)


@MINUTES
@pytest.mark.parametrize("name", RUNS)
def test_T48_two_processes_have_the_losses_and_weights_of_one(
    both: Callable[[str], tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    one, two = both(name)
    monkeypatch.syspath_prepend(two.parent)
    seen = alone(config_of(name), one)
    told = events.read(two / "events.jsonl")
    assert isinstance(told[-1], RunEnded)
    assert told[-1].outcome == "done"
    for found, expected in zip(steps(told), steps(seen), strict=True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert_same_evaluations(told, seen)
    assert_same_weights(weights(two, 2), weights(one, 2))
    assert any((value - weights(one, 1)[key]).abs().max() > 5e-5 for key, value in weights(one, 2).items())


def test_one_process_tells_the_story_of_two(both: Callable[[str], tuple[Path, Path]]) -> None:
    told = events.read(both("branchgrpo")[1] / "events.jsonl")
    kinds = [type(one) for one in told]
    assert (kinds.count(RunStarted), kinds.count(StepDone), kinds.count(RunEnded)) == (1, 2, 1)
    assert (kinds.count(EvaluationDone), kinds.count(SamplesSaved)) == (2, 4)
    assert [one.step for one in told if isinstance(one, TreeDrawn) and one.rewards] == [1, 2]
    started = next(one for one in told if isinstance(one, RunStarted))
    assert started.facts["processes"] == "2"


def test_unjudged_samples_of_both_processes_are_counted(both: Callable[[str], tuple[Path, Path]]) -> None:
    told = steps(events.read(both("dgpo")[1] / "events.jsonl"))
    # of the 4 samples of each of the two prompts, 0 and 3 are None
    assert [one["train/reward_failed_hook"] for one in told] == [4, 4]


def test_a_judge_that_fails_on_one_process_masks_its_samples_alone(both: Callable[[str], tuple[Path, Path]]) -> None:
    told = events.read(both("half")[1] / "events.jsonl")
    assert told[-1].outcome == "done"
    assert [one["train/reward_failed_hook"] for one in steps(told)] == [4]


def test_a_failure_of_another_process_is_recorded_as_its_own(both: Callable[[str], tuple[Path, Path]]) -> None:
    told = events.read(both("torn")[1] / "events.jsonl")
    assert told[-1].outcome == "failed"
    assert told[-1].what.startswith("process 1: rewards.hook.function: 'judges:only_on_process_0' cannot be loaded")


def test_a_checkpoint_of_one_process_resumes_on_two(both: Callable[[str], tuple[Path, Path]]) -> None:
    one, two = both("branchgrpo")[0], both("resumed")[1]
    assert [one.start_step for one in events.read(two / "events.jsonl") if isinstance(one, RunStarted)] == [1]
    assert_same_weights(weights(two, 2), weights(one, 2))


def test_a_checkpoint_of_two_processes_resumes_on_one(both: Callable[[str], tuple[Path, Path]], tmp_path: Path) -> None:
    one, two = both("branchgrpo")
    shutil.copytree(two / "checkpoint-1", tmp_path / "checkpoint-1")
    seen = alone(config_of("branchgrpo"), tmp_path, resume=True)
    assert seen[0].start_step == 1
    assert_same_weights(weights(tmp_path, 2), weights(one, 2))
