"""A run that is being written: form and YAML are two views of one draft, checked and priced at every change."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import yaml
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, ValidationError

from backend.prompts.report import Report, shortened
from frontend_components.forms import FormField, Suggestion, fields_of, suggest
from frontend_components.judging import learned_rewards
from frontend_components.pace import Pace, pace_of

if TYPE_CHECKING:
    from backend.config import RunConfig

router = APIRouter(prefix="/api/v1")
DEFAULT = "shapes-branchgrpo"
SHOWN = 8


class Problem(BaseModel):
    """What is wrong with one field, and what to do. field: its path, such as method.split_steps."""

    field: str
    text: str


class Preset(BaseModel):
    name: str
    title: str
    config: dict[str, Any]


class LaunchForm(BaseModel):
    fields: list[FormField]
    presets: list[Preset]
    default: str


class DraftIn(BaseModel):
    """Settings as data, or as YAML text."""

    model_config = ConfigDict(extra="forbid")
    config: dict[str, Any] | None = None
    text: str | None = None
    preset: str | None = None


class DraftOut(BaseModel):
    """config, text, plan and command are there only when there is no problem; prompts where they come from a file.

    memory: bytes that a device will need, by what holds them, where the base's size is known; pace: where it was run.
    """

    problems: list[Problem] = []
    prompts: Report | None = None
    config: dict[str, Any] | None = None
    text: str | None = None
    plan: dict[str, Any] | None = None
    memory: dict[str, int] | None = None
    pace: Pace | None = None
    command: str | None = None


@router.get("/form")
def form() -> LaunchForm:
    """The fields of a run's settings, and the presets to start from."""
    from backend.config import RunConfig, load, preset_names, preset_path

    loaded = {name: load(preset_path(name)) for name in preset_names()}
    presets = [
        Preset(name=name, title=config.name, config=config.model_dump(mode="json")) for name, config in loaded.items()
    ]
    default = DEFAULT if DEFAULT in loaded else next(iter(loaded), "")
    fitted = [Suggestion(value=one.file, label=one.label) for one in learned_rewards.rewards()]
    fields = suggest(fields_of(RunConfig), "learned", "file", fitted)
    return LaunchForm(fields=fields, presets=presets, default=default)


@router.post("/draft")
def draft(body: DraftIn) -> DraftOut:
    """Checks a draft. A valid one comes back in both forms, with its cost and the shell command that does the same."""
    from backend.config import RunConfig, dump, load, preset_names, preset_path
    from backend.memory import estimate
    from backend.plan import describe

    try:
        data = yaml.safe_load(body.text) if body.text is not None else body.config
    except yaml.YAMLError as error:
        return DraftOut(problems=[Problem(field="", text=f"This is not YAML: {error}")])
    if not isinstance(data, dict):
        return DraftOut(problems=[Problem(field="", text="Settings are a mapping: one `name: value` a line.")])
    try:
        config = RunConfig.model_validate(data)
    except ValidationError as error:
        return DraftOut(problems=problems_of(error))
    report, wrong = prompts_of(config)
    if wrong:
        return DraftOut(problems=wrong, prompts=report)
    written = config.model_dump(mode="json")
    needed = estimate(config, config.method.plan(0, config.grid()))
    known = body.preset if body.preset in preset_names() else None
    start = load(preset_path(known)).model_dump(mode="json") if known else None
    return DraftOut(
        prompts=report,
        config=written,
        text=dump(config),
        plan=asdict(describe(config)),
        memory=needed.record() if needed else None,
        pace=pace_of(config),
        command=command(known, start, written),
    )


def prompts_of(config: RunConfig) -> tuple[Report | None, list[Problem]]:
    """What the draft's files of prompts hold, and why a run could not use them. They must be there on this machine.

    A dataset of the hub is not loaded here: the run does that.
    """
    from backend import first_frames
    from backend.prompts import check, sources

    against = config.evaluation.prompts
    try:
        sources.held_out(against)
    except ValueError as error:
        return None, [Problem(field="evaluation.prompts", text=str(error).removeprefix("evaluation.prompts: "))]
    if not isinstance(config.prompts, sources.FilePrompts) or config.groups is not None:
        return None, [Problem(field=field, text=text) for field, text in first_frames.problems(config)]
    try:
        found = config.prompts.read()
    except ValueError as error:
        return None, [Problem(field="prompts.path", text=str(error).removeprefix("prompts.path: "))]
    report = shortened(check.check(found, config.prompts.path, against), SHOWN)
    try:
        sources.usable(found, config.prompts.path)
    except ValueError as error:
        return report, [Problem(field="prompts.path", text=str(error).removeprefix("prompts: "))]
    return report, [Problem(field=field, text=text) for field, text in first_frames.problems(config)]


def problems_of(error: ValidationError) -> list[Problem]:
    from backend.config import explain

    return [Problem(field=field, text=text) for field, text in explain(error)]


def command(preset: str | None, start: dict[str, Any] | None, written: dict[str, Any]) -> str:
    """The shell command that queues the same run: a preset with what was changed in it, or a file of one's own."""
    if preset is None or start is None:
        return "espalier launch config.yaml"
    sets = [f"--set {shlex.quote(f'{path}={flow(value)}')}" for path, value in changes(start, written)]
    return " \\\n  ".join([f"espalier launch configs/{preset}.yaml", *sets])


def changes(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Paths whose values differ, with the new value. A group of another kind is given as a whole."""
    found: list[tuple[str, Any]] = []
    for name, value in after.items():
        old, path = before.get(name), prefix + name
        if isinstance(old, dict) and isinstance(value, dict) and old.keys() == value.keys():
            found += changes(old, value, path + ".")
        elif old != value:
            found.append((path, value))
    return found


def flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
