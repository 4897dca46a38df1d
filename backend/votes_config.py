"""The settings of a run that trains on judged pairs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from backend.config import RunConfig, load, parse, preset_path
from backend.prompts.sources import held_out

Method = Literal["dpo", "dgpo"]

PRESETS: dict[Method, str] = {"dpo": "shapes-dpo", "dgpo": "shapes-dgpo"}
# Measured in docs/votes.md. The few pairs of a set are learned by heart soon, so that votes are trusted less than the
# thousands of samples of a run: a blunter preference for DPO, and a lower rate.
CHANGED: dict[Method, dict[str, Any]] = {
    # the reference stays the base, as in the paper of Diffusion-DPO: nothing is sampled on the way
    "dpo": {"group_size": 2, "sync_reference_every": 0, "beta": 20.0},
    # clipping bounds the use of a fresh rollout, against weights of a step ago; stored pairs come again and again
    "dgpo": {"group_size": 2, "clip_range": None},
}
LEARNING_RATE: dict[Method, float] = {"dpo": 7e-5, "dgpo": 1.5e-4}
PER_STEP = 16
PASSES = 2.5  # over the pairs, unless steps are named; 80 steps on 500 pairs
FEWEST_STEPS = 10
AS_JUDGED = ("model", "sampling", "evaluation", "rewards")


def steps_for(num_pairs: int) -> int:
    """Training steps for so many pairs: more passes than `PASSES` learn them by heart."""
    return max(FEWEST_STEPS, math.ceil(PASSES * num_pairs / PER_STEP))


def on_votes(
    method: Method, folder: Path, steps: int, name: str, judged: Mapping[str, Any], left_out: Collection[str]
) -> RunConfig:
    """A run from the base on the judged pairs of a folder.

    judged    settings of the run whose pictures were judged: model, grid, evaluation and rewards are taken from it, or
              from the preset where it has none
    left_out  prompts that are not evaluated; those outside the held-out list change nothing
    Raises ValueError where the settings do not fit, and where no prompt would be left.
    """
    data = load(preset_path(PRESETS[method])).model_dump(mode="json")
    data |= {part: judged[part] for part in AS_JUDGED if part in judged}
    data |= {"name": name, "steps": steps, "groups": str(folder)}
    data["method"] |= CHANGED[method]
    data["optimizer"]["learning_rate"] = LEARNING_RATE[method]
    data["prompts"]["per_step"] = PER_STEP
    config = parse(data)
    listed = [prompt.text for prompt in held_out(config.evaluation.prompts)]
    places = tuple(place for place, prompt in enumerate(listed) if prompt in left_out)
    if len(places) == len(listed):
        raise ValueError(
            "evaluate_judged: all held-out prompts were judged, so that none is left to evaluate what was learned; "
            "judge a part of them, or evaluate judged prompts too"
        )
    evaluation = config.evaluation.model_copy(update={"leave_out": places})
    return config.model_copy(update={"evaluation": evaluation})
