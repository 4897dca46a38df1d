"""How long a draft will train, from the forwards of its steps and the seconds that a forward took in earlier runs."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from db import runs
from db.session import reading

if TYPE_CHECKING:
    from backend.config import RunConfig

LOOKED_AT, VALIDATED, NEWEST = 200, 20, 5
WITH_GRADIENT = 3  # forwards that one with its backward pass is worth
FREE = ("tuning", "lora", "prompt_cache", "release_text_encoders", "first_frame", "negative_prompt")  # not of the pace


class Pace(BaseModel):
    """seconds: of all training steps, evaluations aside; num_runs: how many earlier runs this is taken from."""

    seconds: float
    num_runs: int


def pace_of(config: RunConfig) -> Pace | None:
    """By the newest runs of the same base at the same size, those of the draft's own method where there are any.

    None where no such run has finished a step.
    """
    found = [(run, units) for run in _measured(config.model.base) if (units := _like(run.config, config))]
    same = [one for one in found if one[0].config["method"]["name"] == config.method.name]
    of_forward = [run.seconds_per_step / units for run, units in (same or found)[:NEWEST]]
    if not of_forward:
        return None
    return Pace(seconds=median(of_forward) * forwards(config) * config.steps, num_runs=len(of_forward))


def forwards(config: RunConfig) -> float:
    """Passes of one latent through the transformer in a step, on each of its processes."""
    from backend.plan import describe

    plan = describe(config)
    each = plan.forwards_per_prompt + plan.evaluated_forwards + WITH_GRADIENT * plan.training_forwards
    return config.model.passes() * plan.prompts_per_step * each / config.processes


def _measured(base: str) -> list[Any]:
    with reading() as session:
        listed = [run for run in runs.listing(session, limit=LOOKED_AT) if run.seconds_per_step]
    return [run for run in listed if run.config.get("model", {}).get("base") == base][:VALIDATED]


def _like(earlier: dict[str, Any], config: RunConfig) -> float | None:
    """The forwards of a step of an earlier run, if it was of the same base at the same size."""
    from backend.config import RunConfig

    try:
        known = RunConfig.model_validate(earlier)
    except ValidationError:
        return None  # of a version whose settings were others, so its forwards cannot be counted
    fixed = [one.model.model_dump(exclude=set(FREE)) for one in (known, config)]
    return forwards(known) if fixed[0] == fixed[1] else None
