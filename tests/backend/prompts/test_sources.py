from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from backend import config, evaluate, train
from backend.config import RunConfig
from backend.device import pick
from backend.events import EvaluationDone, RunEnded, RunStarted, SamplesSaved, StepDone, TreeDrawn
from backend.methods.settings import Settings
from backend.prompts.sources import FilePrompts, ShapesTrain, held_out
from backend.shapes import prompts as shapes
from backend.shapes.prompts import TASKS
from backend.train import Clock, Trainer

Small = Callable[..., RunConfig]
SHAPES = ["a red circle", "two stars", "a red circle", "a blue ring", "a cross above a star"]


class Tagged(Settings):
    """A rule-based reward: the number that the prompt's row has."""

    differentiable: ClassVar[bool] = False
    needs_metadata: ClassVar[Literal[True]] = True
    name: Literal["tagged"] = "tagged"
    weight: float = 1.0

    def score(self, frames: Tensor, prompts: Sequence[str], metadata: Sequence[Any]) -> Tensor:
        assert len(frames) == len(prompts) == len(metadata)
        return torch.tensor([float(one["number"]) for one in metadata], dtype=torch.float64)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.csv"
    rows = [f"{text},{number},{'ab'[number % 2]}" for number, text in enumerate(SHAPES)]
    path.write_text("\n".join(["prompt,number,task", *rows]) + "\n")
    return path


def test_shapes_prompts_are_those_of_the_world_and_tasks_take_turns() -> None:
    found = [one for step in range(3) for one in ShapesTrain(per_step=4).batch(0, step)]
    assert [one.task for one in found] == [*TASKS, *TASKS]
    assert all(shapes.parse(one.text).task == one.task for one in found)


def test_named_tasks_take_turns_as_often_as_they_are_named() -> None:
    turns = ("counting", "position", "counting")
    found = [one for step in range(3) for one in ShapesTrain(per_step=2, tasks=turns).batch(0, step)]
    assert [one.task for one in found] == [*turns, *turns]
    assert all(shapes.parse(one.text).task == one.task for one in found)
    refused = r"tasks\n.*counted: not a task of this world; choose among single_object, two"
    with pytest.raises(ValueError, match=refused):
        ShapesTrain(tasks=("counted",))


def test_a_step_takes_rows_and_equal_texts_stay_two_prompts(file: Path) -> None:
    """Pitfall 19: groups are told apart by their place, never by their text."""
    found = FilePrompts(path=str(file), per_step=5).batch(0, 0)
    assert sorted(one.text for one in found) == sorted(SHAPES)
    assert sorted(one.metadata["number"] for one in found) == ["0", "1", "2", "3", "4"]


def test_files_with_rows_that_are_no_prompts_are_refused_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "a"}\n{"promt": "b"}\n{\n')
    with pytest.raises(
        ValueError, match=r"a\.jsonl has 2 rows that are no prompts \(line 2: no column .*; line 3: not"
    ):
        FilePrompts(path=str(tmp_path / "a.jsonl")).batch(0, 0)
    (tmp_path / "b.txt").write_text("\n\n")
    with pytest.raises(ValueError, match=r"b\.txt holds no prompt"):
        FilePrompts(path=str(tmp_path / "b.txt")).batch(0, 0)
    with pytest.raises(ValueError, match=r"evaluation\.prompts: .*none\.txt does not exist"):
        held_out(str(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("prompts={source: file, path: a.doc}", r"prompts\.path: give a file of prompts that ends in \.txt"),
        ("prompts={source: file, path: a.txt, split: x}", r"prompts\.split: this name does not exist"),
        ("prompts={source: dataset, id: ''}", r"prompts\.id: give the id of a dataset"),
        ("prompts={source: web}", r"prompts: .*'shapes-train', 'moving-train', 'file', 'dataset'"),
        ("prompts.per_step=0", r"prompts\.per_step: Input should be greater than or equal to 1"),
        ("rewards=[{name: learned, file: 3}]", r"rewards\.0\.file: "),
    ],
)
def test_mistakes_name_their_field(small: Small, override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(override)


def test_settings_survive_a_round_trip(small: Small, file: Path) -> None:
    run = small(f"prompts={{source: file, path: {file}, column: prompt}}", f"evaluation.prompts={file}")
    assert config.read(config.dump(run)) == run
    assert run.prompts == FilePrompts(path=str(file), column="prompt")


def test_metadata_reach_the_reward_of_their_prompt_in_training_and_evaluation(small: Small, file: Path) -> None:
    run = small(f"prompts={{source: file, path: {file}, per_step: 3}}", f"evaluation.prompts={file}")
    run = run.model_copy(update={"rewards": (Tagged(),)})
    policy = run.model.load(pick(), 0)
    rollout = Trainer(run, file.parent, policy, lambda event: None).roll_out(0, Clock())
    numbers = [float(one.metadata["number"]) for one in run.prompts.batch(run.seed, 0)]
    assert rollout.rewards is not None
    assert rollout.rewards.tolist() == [[number] * 4 for number in numbers]
    items = evaluate.items_of(run)
    scores = evaluate.score(torch.zeros(len(items), 1, 3, 64, 64), items, run)
    assert {name: part.tolist() for name, part in scores.items()} == {"tagged": [0.0, 1.0, 2.0, 3.0, 4.0]}


def steps_of(seen: list[Any]) -> list[dict[str, Any]]:
    done = [one.metrics for one in seen if isinstance(one, StepDone)]
    return [{name: value for name, value in one.items() if not name.startswith(("time/", "memory/"))} for one in done]


def test_a_run_on_files_reports_rewards_by_task_and_resumes_exactly(small: Small, file: Path) -> None:
    run = small(f"prompts={{source: file, path: {file}, per_step: 2}}", f"evaluation.prompts={file}", "steps=3")
    whole, parts = [], []
    folders = [file.parent / name for name in ("whole", "parts")]
    for folder in folders:
        folder.mkdir()
    assert train.train(run, folders[0], whole.append, lambda: False, resume=False) == "done"
    assert train.train(run, folders[1], parts.append, lambda: len(steps_of(parts)) >= 2, resume=False) == "stopped"
    assert train.train(run, folders[1], parts.append, lambda: False, resume=True) == "done"
    assert steps_of(whole) == steps_of(parts)
    started = next(one for one in whole if isinstance(one, RunStarted))
    assert started.facts["prompts"].startswith(f"{file}: 5 prompts, 4 different, 4 of them also in {file}; sha256 ")
    drawn = {one.prompt for one in whole if isinstance(one, TreeDrawn)}
    assert drawn <= set(SHAPES)
    reports = [one.report for one in whole if isinstance(one, EvaluationDone)]
    assert len(reports) == 2
    assert not {"strict_accuracy", "quality"} & set(reports[0])
    assert {task: one["count"] for task, one in reports[0]["tasks"].items()} == {"a": 3, "b": 2}
    means = [one["rewards"]["shapes"]["mean"] for one in reports[0]["tasks"].values()]
    assert reports[0]["rewards"]["shapes"]["mean"] == pytest.approx(sum(means) / 2, abs=1e-6)
    samples = [one for event in whole if isinstance(event, SamplesSaved) for one in event.samples]
    assert {one.task for one in samples} == {"a", "b"}
    assert set(samples[0].scores) == {"shapes"}


def test_a_run_whose_file_is_not_there_fails_before_it_samples(small: Small, tmp_path: Path) -> None:
    seen: list[Any] = []
    run = small("prompts={source: file, path: none.txt}")
    assert train.train(run, tmp_path, seen.append, lambda: False, resume=False) == "failed"
    assert [type(one) for one in seen] == [RunEnded]
    assert "prompts.path: none.txt does not exist on this machine" in seen[0].what
