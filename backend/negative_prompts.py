"""What a run says of the negative prompts that stand beside its prompts: that they guide it, or that nothing does."""

from __future__ import annotations

from collections.abc import Sequence

from backend.config import RunConfig
from backend.prompts import sources
from backend.prompts.record import Prompt


def facts(config: RunConfig, trains: bool = True) -> dict[str, str]:
    """Empty where no prompt of the run has one of its own. Raises ValueError where a list cannot be read.

    trains  whether the prompts of training are sampled, too
    """
    told = [words for name, prompts in _lists(config, trains) if (words := _counted(name, prompts))]
    if not told:
        return {}
    guided = config.model.cfg() > 1
    used = "guidance leads away from them" if guided else "not used: sampled without classifier-free guidance"
    return {"negative prompts": f"{' and '.join(told)} have their own; {used}"}


def _lists(config: RunConfig, trains: bool) -> list[tuple[str, Sequence[Prompt]]]:
    """What the run samples by name. Stored groups are not sampled, and prompts of a built-in world have none."""
    evaluated = ("evaluation", sources.held_out(config.evaluation.prompts))
    source = config.prompts
    if not trains or config.groups is not None or isinstance(source, sources.WorldPrompts):
        return [evaluated]
    return [("training", sources.usable(source.read(), source.name)), evaluated]


def _counted(name: str, prompts: Sequence[Prompt]) -> str:
    own = sum(one.negative_prompt is not None for one in prompts)
    return f"{own} of {len(prompts)} {name} prompts" if own else ""
