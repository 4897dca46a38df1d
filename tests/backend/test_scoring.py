"""Rewards in a process of their own: the numbers of those computed inline, beside the rollout, and its end."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import psutil
import pytest
import torch
import yaml
from torch import Tensor

from backend import checkpoint, collect, events, media, scoring, train
from backend.clock import Clock
from backend.config import AnyReward, RunConfig, dump, parse, read
from backend.device import pick
from backend.events import EvaluationDone, Event, RunEnded, SamplesSaved, StepDone, TreeDrawn
from backend.rewards.hook import Hook
from backend.rewards.shapes import ShapesReward
from backend.rollout import sample
from backend.rollout_parts import sample_in_parts
from backend.scoring import Apart, Inline, Scoring
from backend.types import Plan
from tests.backend.two_processes import launch

PROJECT = Path(__file__).resolve().parents[2]
SECONDS = 120.0
LORA = "model.tuning={kind: lora, rank: 4, alpha: 8}"
APART = "scoring.process=true"
pytestmark = pytest.mark.timeout(900)

HOOKS = """
import os, signal, time
from pathlib import Path

FOLDER = Path(__file__).parent

def await_file(name):
    deadline = time.monotonic() + 120
    while not (FOLDER / name).exists():
        assert time.monotonic() < deadline, name
        time.sleep(0.01)

def mean(frames, prompts, metadata):
    return frames.double().mean((1, 2, 3, 4)).tolist()

def process(frames, prompts, metadata):
    return [float(os.getpid())] * len(prompts)

def threads(frames, prompts, metadata):
    import torch
    return [float(torch.get_num_threads())] * len(prompts)

def ill(frames, prompts, metadata):
    if "bad" in prompts[0]:
        raise KeyError("the judge is ill")
    return [1.0] * len(prompts)

def first_with_second(frames, prompts, metadata):
    number = len(list(FOLDER.glob("judging-*"))) + 1
    (FOLDER / f"judging-{number}").touch()
    if number == 1:
        await_file("sampling-2")
    return [float(number)] * len(prompts)

def forever(frames, prompts, metadata):
    (FOLDER / "pid").write_text(str(os.getpid()))
    time.sleep(1000)

def reads(frames, prompts, metadata):
    import sys
    return [float(len(sys.stdin.read()))] * len(prompts)

def dies_on_process_1(frames, prompts, metadata):
    if os.environ.get("RANK") == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return [1.0] * len(prompts)
"""


@pytest.fixture(autouse=True)
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hooks"
    folder.mkdir()
    (folder / "judges_apart.py").write_text(HOOKS)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def apart() -> Iterator[Apart]:
    scorer = Apart("cpu")
    yield scorer
    scorer.close()
    assert not scorers()


def scorers() -> list[psutil.Process]:
    """This process's children that compute rewards."""
    return [one for one in psutil.Process().children() if "backend.scoring_process" in one.cmdline()]


def hook(name: str) -> Hook:
    return Hook(function=f"judges_apart:{name}")


def judged_by(name: str) -> str:
    return f"rewards=[{{name: hook, function: 'judges_apart:{name}'}}]"


def frames_of(num: int, seed: int = 0) -> Tensor:
    return media.quantise(torch.rand(num, 1, 3, 64, 64, generator=torch.Generator().manual_seed(seed)))


def run(config: RunConfig, folder: Path, emit: Callable[[Event], None] = lambda event: None) -> tuple[str, list[Any]]:
    folder.mkdir()
    seen: list[Any] = []

    def both(event: Event) -> None:
        seen.append(event)
        emit(event)

    outcome = train.train(config, folder, both, lambda: False, resume=False)
    assert not scorers()
    return outcome, seen


def metrics(seen: list[Any]) -> list[dict[str, float | None]]:
    done = [one.metrics for one in seen if isinstance(one, StepDone)]
    return [{name: value for name, value in one.items() if not name.startswith(("time/", "memory/"))} for one in done]


def weights(folder: Path, step: int) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / f"checkpoint-{step}" / checkpoint.WEIGHTS)


# Settings


@pytest.mark.parametrize("given", ["device=cuda:1", "prompts_at_once=2"])
def test_settings_of_the_process_need_it(small: Callable[..., RunConfig], given: str) -> None:
    field = given.partition("=")[0]
    with pytest.raises(ValueError, match=rf"scoring\.{field}: without a process it changes nothing; set scoring.proc"):
        small(f"scoring.{given}")
    small(APART, f"scoring.{given}")


def test_a_device_has_a_number(small: Callable[..., RunConfig]) -> None:
    with pytest.raises(
        ValueError, match=r"scoring\.device: no device has this name; give cpu, or .* cuda:1 \(got 'gpu"
    ):
        small(APART, "scoring.device=gpu")


def test_a_device_that_is_not_there_is_refused_before_anything_is_sampled(
    small: Callable[..., RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert isinstance(scoring.open_scorer(Scoring(process=True, device="cuda:1"), torch.device("cuda:0")), Apart)
    outcome, seen = run(small(APART, "scoring.device=cuda:2"), tmp_path / "run")
    assert outcome == "failed"
    assert [type(one) for one in seen] == [RunEnded]
    assert seen[0].what.startswith(
        "scoring.device: cuda:2 cannot be seen here, where there are 2 GPUs, numbered from 0;"
    )


def test_the_step_is_sampled_whole_unless_there_is_a_process() -> None:
    assert Scoring().prompts_per_part(8) == 8
    assert Scoring(process=True).prompts_per_part(8) == 1
    assert Scoring(process=True, prompts_at_once=3).prompts_per_part(8) == 3
    assert isinstance(scoring.open_scorer(Scoring(), torch.device("cpu")), Inline)


def test_a_config_with_a_process_is_read_back(small: Callable[..., RunConfig]) -> None:
    config = small(APART, "scoring.device=cpu", "scoring.prompts_at_once=2")
    assert read(dump(config)) == config
    before = {name: value for name, value in yaml.safe_load(dump(small())).items() if name != "scoring"}
    assert parse(before) == small()


# What crosses


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_every_level_arrives_as_it_was(dtype: torch.dtype) -> None:
    frames = media.quantise((torch.arange(256, dtype=torch.float64) / 255).to(dtype).view(2, 1, 1, 8, 16))
    sent = pickle.loads(pickle.dumps(scoring.request([], frames, ["a", "b"], [{}, {}])))
    assert sent.levels.dtype == "uint8"
    found = sent.frames(torch.device("cpu"))
    assert found.dtype == dtype
    assert torch.equal(found, frames)


def test_frames_that_are_nan_are_refused() -> None:
    frames = frames_of(2)
    frames[1, 0, 0, 3, 3] = math.nan
    with pytest.raises(ValueError, match="frames: the model decoded NaN"):
        scoring.request([], frames, ["a", "b"], [{}, {}])


@pytest.mark.parametrize("kind", get_args(get_args(AnyReward)[0]), ids=lambda kind: kind.__name__)
def test_every_reward_can_be_sent(kind: type[Any]) -> None:
    reward = kind()
    assert pickle.loads(pickle.dumps(reward)) == reward


# The process


def test_answers_are_those_of_this_process_in_the_order_of_submission(apart: Apart) -> None:
    inline = Inline()
    rewards = [hook("mean"), ShapesReward()]
    for seed, num in enumerate([3, 1, 4]):
        prompts = ["a red circle", "three stars", "a square left of a ring", "a blue square"][:num]
        for scorer in (inline, apart):
            scorer.submit(rewards, frames_of(num, seed), prompts, [{}] * num)
    expected, found = inline.answer(), apart.answer()
    assert found.parts.keys() == expected.parts.keys() == {"hook", "shapes"}
    for name, part in expected.parts.items():
        assert part.shape == (8,)
        assert torch.equal(found.parts[name], part)
    assert (
        expected.parts["hook"].tolist()
        == torch.cat([frames_of(num, seed).double().mean((1, 2, 3, 4)) for seed, num in enumerate([3, 1, 4])]).tolist()
    )


def test_it_starts_with_the_first_submission_and_stays(apart: Apart) -> None:
    assert not scorers()
    pids = {float(scoring.score(apart, [hook("process")], frames_of(1), ["a"], [{}]).parts["hook"]) for _ in range(2)}
    assert pids == {scorers()[0].pid}
    assert pids != {os.getpid()}


def test_it_has_as_many_threads_and_no_standard_input(apart: Apart) -> None:
    found = scoring.score(apart, [hook("threads")], frames_of(1), ["a"], [{}])
    assert found.parts["hook"].tolist() == [torch.get_num_threads()]
    assert scoring.score(apart, [hook("reads")], frames_of(1), ["a"], [{}]).parts["hook"].tolist() == [0]


def test_a_reward_that_fails_gives_nan_and_its_reason(apart: Apart) -> None:
    inline = Inline()
    for scorer in (inline, apart):
        scorer.submit([hook("ill")], frames_of(2), ["good", "good"], [{}] * 2)
        scorer.submit([hook("ill")], frames_of(3), ["bad"] * 3, [{}] * 3)
        scorer.submit([hook("ill")], frames_of(1), ["bad"], [{}])
    expected, found = inline.answer(), apart.answer()
    assert found.reasons == expected.reasons == {"hook": "judges_apart:ill raised KeyError: 'the judge is ill'"}
    assert found.parts["hook"].isnan().tolist() == [False, False, True, True, True, True]
    assert torch.equal(found.parts["hook"].nan_to_num(), expected.parts["hook"].nan_to_num())


def test_an_error_of_a_reward_is_raised_here_and_the_next_is_answered(apart: Apart) -> None:
    outside = [ShapesReward()], frames_of(2), ["a portrait of a lady"] * 2, [{}] * 2
    with pytest.raises(ValueError, match="portrait") as expected:
        scoring.score(Inline(), *outside)
    apart.submit(*outside)
    apart.submit([hook("mean")], frames_of(1), ["a"], [{}])
    with pytest.raises(ValueError, match="portrait") as found:
        apart.answer()
    assert type(found.value) is ValueError
    assert str(found.value) == str(expected.value)
    assert scoring.score(apart, [hook("mean")], torch.ones(1, 1, 3, 4, 4), ["a"], [{}]).parts["hook"].tolist() == [1.0]


def test_it_leaves_with_a_parent_that_is_killed_while_a_reward_is_computed(hooks: Path) -> None:
    code = (
        "import torch; from backend.scoring import Apart, score; from backend.rewards.hook import Hook\n"
        "score(Apart('cpu'), [Hook(function='judges_apart:forever')], torch.ones(1, 1, 3, 4, 4), ['a'], [{}])"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT)
    try:
        wait_until(lambda: (hooks / "pid").exists() and (hooks / "pid").read_text())
        scorer = psutil.Process(int((hooks / "pid").read_text()))
        assert scorer.ppid() == parent.pid
    finally:
        parent.kill()
        parent.wait()
    assert psutil.wait_procs([scorer], timeout=SECONDS)[1] == []


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# A rollout in parts


def test_parts_are_the_rollout_of_all(small: Callable[..., RunConfig]) -> None:
    config = small("prompts.per_step=5")
    policy = config.model.load(pick(), 0)
    plan: Plan = config.method.plan(0, config.grid())
    prompts = [one.text for one in config.prompts.batch(0, 0)]
    cond = policy.encode(prompts)

    def generators() -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed) for seed in range(5)]

    whole = sample(policy, prompts, plan, generators(), cond)
    told: list[tuple[range, Any]] = []
    levels: list[tuple[int, int]] = []
    joined = sample_in_parts(
        policy,
        prompts,
        plan,
        generators(),
        cond,
        2,
        lambda at, part: told.append((at, part)),
        lambda level, states, x0: levels.append((level, len(states))),
    )
    assert [at for at, _ in told] == [range(0, 2), range(2, 4), range(4, 5)]
    assert [part.prompts for _, part in told] == [tuple(prompts[:2]), tuple(prompts[2:4]), tuple(prompts[4:])]
    assert levels == [(level, 2) for level in range(plan.num_steps + 1)]
    assert joined.prompts == whole.prompts
    assert joined.cond is cond
    for found, expected in zip((*joined.states, *joined.logps), (*whole.states, *whole.logps), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4, equal_nan=True)


def test_the_first_prompts_are_judged_while_the_next_are_sampled(
    small: Callable[..., RunConfig], tmp_path: Path, hooks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the judge of part 1 waits for the sampling of part 2 to have begun, which waits for that judge
    config = small("prompts.per_step=3", judged_by("first_with_second"), APART)
    policy = config.model.load(pick(), 0)
    trainer = train.Trainer(config, tmp_path, policy, emit=lambda event: None)
    velocity, parts = policy.velocity, []

    def watched(x: Tensor, sigma: Tensor, *rest: Any) -> Tensor:
        if float(sigma[0]) == 1.0:
            parts.append(len(x))
            if len(parts) == 2:
                wait_until((hooks / "judging-1").exists)
                (hooks / "sampling-2").touch()
        return velocity(x, sigma, *rest)

    monkeypatch.setattr(policy, "velocity", watched)
    rollout = trainer.roll_out(0, Clock())
    trainer.scorer.close()
    assert len(parts) == 3
    assert rollout.rewards is not None
    assert rollout.rewards.tolist() == [[1.0] * 4, [2.0] * 4, [3.0] * 4]


# Whole runs


@pytest.fixture
def inline(small: Callable[..., RunConfig], tmp_path: Path) -> tuple[Path, list[Any]]:
    outcome, seen = run(small(LORA, "evaluation.rewards=[{name: edge_density}]"), tmp_path / "inline")
    assert outcome == "done"
    return tmp_path / "inline", seen


def test_a_run_is_that_of_rewards_in_its_own_process(
    small: Callable[..., RunConfig], tmp_path: Path, inline: tuple[Path, list[Any]]
) -> None:
    folder, expected = inline
    children = set()

    def watch(event: Event) -> None:
        children.update(one.pid for one in scorers())

    # all P = 2 prompts of a step at once, so that every batch is as large as inline
    both = small(LORA, "evaluation.rewards=[{name: edge_density}]", APART, "scoring.prompts_at_once=2")
    outcome, seen = run(both, tmp_path / "apart", watch)
    assert outcome == "done"
    assert len(children) == 1
    assert metrics(seen) == metrics(expected)
    assert any((one["train/grad_norm"] or 0) > 0 for one in metrics(seen))
    for kind in (TreeDrawn, EvaluationDone, SamplesSaved):
        found, wanted = (
            [one.model_dump(exclude={"time"}) for one in told if isinstance(one, kind)] for told in (seen, expected)
        )
        assert found == wanted != []
    tuned, wanted_tuned = weights(tmp_path / "apart", 4), weights(folder, 4)
    assert tuned.keys() == wanted_tuned.keys()
    assert all(torch.equal(tuned[name], value) for name, value in wanted_tuned.items())


def test_a_run_of_one_prompt_at_once_differs_by_rounding(
    small: Callable[..., RunConfig], tmp_path: Path, inline: tuple[Path, list[Any]]
) -> None:
    folder, expected = inline
    each = small(LORA, "evaluation.rewards=[{name: edge_density}]", APART)
    outcome, seen = run(each, tmp_path / "each")
    assert outcome == "done"
    for found, wanted in zip(metrics(seen), metrics(expected), strict=True):
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    for name, value in weights(folder, 4).items():
        torch.testing.assert_close(weights(tmp_path / "each", 4)[name], value, rtol=0, atol=1e-5)
    trees, wanted_trees = (
        [one for one in told if isinstance(one, TreeDrawn) and one.rewards] for told in (seen, expected)
    )
    assert len(trees) == len(wanted_trees) > 1
    for tree, wanted_tree in zip(trees, wanted_trees, strict=True):
        assert (tree.prompt, tree.parents) == (wanted_tree.prompt, wanted_tree.parents)
        assert tree.sprite.nodes == wanted_tree.sprite.nodes
        assert tree.rewards == pytest.approx(wanted_tree.rewards, abs=1e-5)


@pytest.mark.parametrize("more", [(), (APART,)])
def test_a_function_that_is_not_there_ends_a_run_in_the_same_words(
    small: Callable[..., RunConfig], tmp_path: Path, more: tuple[str, ...]
) -> None:
    outcome, seen = run(small(judged_by("nothing"), *more), tmp_path / "run")
    assert outcome == "failed"
    assert seen[-1].what.startswith("rewards.hook.function: 'judges_apart:nothing' cannot be loaded (")


def test_a_run_ends_when_its_process_is_killed(small: Callable[..., RunConfig], tmp_path: Path) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 2:
            scorers()[0].kill()

    outcome, seen = run(small(APART, "logging.checkpoint_every=1", "logging.samples_every=4"), tmp_path / "run", kill)
    assert outcome == "failed"
    assert [one.step for one in seen if isinstance(one, StepDone)] == [1, 2]
    assert isinstance(seen[-1], RunEnded)
    assert seen[-1].what.startswith(
        "scoring: the process that computes the rewards was killed by SIGKILL (exit code -9);"
    )
    assert seen[-1].what.endswith("Then resume the run; the last good checkpoint is checkpoint-2")


def test_a_process_that_cannot_work_is_told_of(apart: Apart, monkeypatch: pytest.MonkeyPatch, hooks: Path) -> None:
    (hooks / "torch.py").write_text("raise SystemExit(3)")
    with pytest.raises(
        scoring.ScorerLost, match=r"scoring: the process that computes the rewards left \(exit code 3\)"
    ):
        scoring.score(apart, [hook("mean")], frames_of(1), ["a"], [{}])


def test_stored_groups_are_collected_with_it(small: Callable[..., RunConfig], tmp_path: Path) -> None:
    for name, more in {"inline": (), "apart": (APART, "scoring.prompts_at_once=2")}.items():
        collect.collect(small(judged_by("mean"), *more), tmp_path / name, 2)
        assert not scorers()
    first, second = (sorted((tmp_path / name).glob("*.safetensors")) for name in ("inline", "apart"))
    assert [one.name for one in first] == [one.name for one in second] != []
    assert [one.read_bytes() for one in first] == [one.read_bytes() for one in second]


# Several processes, in one launch

SHORT: dict[str, Any] = {
    "steps": 1,
    "model": {"family": "sd3", "tuning": {"kind": "lora", "rank": 4, "alpha": 8}},
    "method": {"name": "branchgrpo", "split_steps": [0, 1]},
    "sampling": {"steps": 4, "evaluation_steps": 2},
    "prompts": {"source": "shapes-train", "per_step": 4},
    "evaluation": {"limit": 1, "seeds": [1], "shown": 1},
}


def test_each_of_two_processes_has_its_own_and_tells_the_other_of_its_loss(tmp_path: Path, hooks: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "judges_apart.py").write_text(HOOKS)
    well = SHORT | {"rewards": [{"name": "hook", "function": "judges_apart:mean"}]}
    gone = SHORT | {"rewards": [{"name": "hook", "function": "judges_apart:dies_on_process_1"}]}
    for name, data in {"a_well": well, "b_gone": gone}.items():
        parse(data)
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data | {"scoring": {"process": True}}))
    launch(folder)
    outcome, expected = run(parse(well), tmp_path / "one")
    assert outcome == "done"
    told = events.read(folder / "a_well" / "events.jsonl")
    assert metrics(told)[0] == pytest.approx(metrics(expected)[0], rel=1e-5, abs=1e-5)
    ended = events.read(folder / "b_gone" / "events.jsonl")[-1]
    assert isinstance(ended, RunEnded)
    assert ended.outcome == "failed"
    assert ended.what.startswith("process 1: scoring: the process that computes the rewards was killed by SIGKILL")
