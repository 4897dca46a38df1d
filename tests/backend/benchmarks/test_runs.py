import json
from dataclasses import replace
from threading import Event

import pytest

from backend.benchmarks import runs
from backend.benchmarks.jobs import Job
from backend.benchmarks.records import Forwards
from backend.events import EvaluationDone, RunEnded, RunStarted, StepDone

JOB = Job("main", "branchgrpo", "branchgrpo", 0, (), 60)
FORWARDS = Forwards(rollout=100, evaluated=0, trained=100)
SPENT = runs.Spent(30.0, 25.0, 400_000_000)


def report(strict):
    interval = {"mean": strict, "low": strict, "high": strict}
    return {"strict_accuracy": {"overall": interval}, "quality": interval, "rewards": {"shapes": interval}}


def happened(outcome="done"):
    return [
        RunStarted(start_step=0, total_steps=9, facts={"git": "abc"}, trained_parameters=1, total_parameters=1,
                   forwards_per_prompt=1),
        EvaluationDone(step=0, report=report(0.5)),
        StepDone(step=1, metrics={"time/step": 2.0, "train/reward_mean": 0.5}),
        StepDone(step=2, metrics={"time/step": 3.0, "train/reward_mean": 0.7}),
        EvaluationDone(step=2, report=report(0.6)),
        RunEnded(step=2, outcome=outcome, what="loss became NaN" if outcome == "failed" else ""),
    ]  # fmt: skip


def test_the_clock_is_the_sum_of_training_steps():
    found = runs.told(JOB, happened(), FORWARDS, SPENT, report(0.65))
    assert [(one.step, one.seconds, one.strict) for one in found.evaluations] == [(0, 0.0, 0.5), (2, 5.0, 0.6)]
    assert found.training == [(2.0, 0.5), (5.0, 0.7)]
    assert (found.steps, found.seconds, found.strict) == (2, 5.0, 0.65)
    assert (found.wall_seconds, found.cpu_seconds, found.peak_memory_bytes) == (30.0, 25.0, 400_000_000)
    assert found.fingerprint == JOB.fingerprint


def test_a_failed_run_is_a_record_without_a_score():
    found = runs.told(JOB, happened("failed"), FORWARDS, SPENT, None)
    assert (found.outcome, found.what, found.strict) == ("failed", "loss became NaN", None)


def test_evaluations_come_as_often_whatever_a_step_costs():
    # 100 + 3 x 100 latents are half a second, so 60 s hold 120 steps: every 12th of them for 10 evaluations
    assert runs.evaluate_every(FORWARDS, 60, 10) == 12
    assert runs.evaluate_every(Forwards(rollout=100_000, evaluated=0, trained=100_000), 60, 10) == 1


def test_a_run_that_cannot_be_made_does_not_end_the_others(tmp_path, profile, trained, monkeypatch):
    def run(job, *rest):
        if job.seed == 0:
            raise RuntimeError("no space left")
        return trained("main", "branchgrpo", job.seed)

    monkeypatch.setattr(runs, "run", run)
    jobs, said = [replace(JOB, seed=seed) for seed in range(3)], []
    with pytest.raises(RuntimeError, match=r"1 of 3 runs could not be made: main/branchgrpo-seed0\.json"):
        runs.run_all(jobs, [FORWARDS] * 3, profile, tmp_path, said.append)
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["branchgrpo-seed1.json", "branchgrpo-seed2.json"]
    assert any("no space left" in line for line in said)


def test_a_child_tells_what_it_used(tmp_path):
    spent = runs.child(["plan", "configs/shapes-branchgrpo.yaml", "--json"], tmp_path / "log", Event())
    assert json.loads((tmp_path / "log").read_text())["num_leaves"] == 16
    assert spent.cpu_seconds > 0
    assert spent.memory > 50_000_000


def test_a_childs_mistake_is_passed_on(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)exit code 2:.*nowhere.yaml does not exist"):
        runs.child(["plan", "nowhere.yaml"], tmp_path / "log", Event())


def test_a_child_ends_when_the_benchmark_is_stopped(tmp_path):
    stopping = Event()
    stopping.set()
    train = ["train", "configs/shapes-branchgrpo.yaml", "--out", str(tmp_path / "run"), "--watch-stdin"]
    with pytest.raises(runs.Stopped):
        runs.child(train, tmp_path / "log", stopping)
