"""The time of a draft against the arithmetic of runs that took a known time."""

from pathlib import Path

import pytest

from backend.config import RunConfig, load, preset_path
from db import runs
from db.models import Run
from db.session import migrate, writing
from frontend_components.pace import forwards, pace_of

PRESET = "shapes-branchgrpo"


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_DATA", str(tmp_path))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    migrate()


def took(config: RunConfig, seconds: float | None) -> None:
    with writing() as session:
        row = runs.create(session, name="earlier", config=config.model_dump(mode="json"), preset=None)
        session.get_one(Run, row.id).seconds_per_step = seconds


def preset(*changes: str, name: str = PRESET) -> RunConfig:
    return load(preset_path(name), ["steps=10", *changes])


def test_forwards_count_those_with_gradient_three_times() -> None:
    config = preset("prompts.per_step=2", "model.guidance=2")
    from backend.plan import describe

    plan = describe(config)
    assert forwards(config) == 2 * 2 * (47 + 3 * plan.training_forwards + plan.evaluated_forwards)


def test_without_a_run_of_the_base_nothing_is_invented() -> None:
    took(preset(), None)  # it has not finished a step
    took(preset("model.resolution=64"), 5.0)  # the same base at another size
    assert pace_of(preset()) is None


def test_a_run_of_the_same_kind_took_the_same_time() -> None:
    took(preset(), 5.0)
    found = pace_of(preset())
    assert found is not None
    assert (found.seconds, found.num_runs) == (pytest.approx(50.0), 1)
    doubled = pace_of(preset(f"prompts.per_step={2 * preset().prompts.per_step}", "model.tuning={kind: lora, rank: 4}"))
    assert doubled is not None
    assert doubled.seconds == pytest.approx(100.0)


def test_another_method_is_scaled_by_its_forwards_until_its_own_runs_are_there() -> None:
    took(preset(), 5.0)
    other = preset(name="shapes-dgpo")
    found = pace_of(other)
    assert found is not None
    assert found.seconds == pytest.approx(50.0 * forwards(other) / forwards(preset()))
    for seconds in (2.0, 3.0, 40.0):
        took(other, seconds)
    found = pace_of(other)
    assert found is not None
    assert (found.seconds, found.num_runs) == (pytest.approx(30.0), 3)


def test_runs_whose_settings_no_longer_exist_are_passed_over() -> None:
    with writing() as session:
        row = runs.create(session, name="old", config={"model": {"base": "shapes"}, "gone": 1}, preset=None)
        session.get_one(Run, row.id).seconds_per_step = 1.0
    assert pace_of(preset()) is None
