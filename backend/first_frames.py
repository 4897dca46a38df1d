"""Whether every video of a run has a picture to start from, asked before the run is queued and again as it starts."""

from __future__ import annotations

from collections.abc import Sequence

from backend.config import RunConfig
from backend.prompts import first_frames, sources
from backend.prompts.record import Prompt
from backend.prompts.rows import Fault

SHOWN = 3


def problems(config: RunConfig, thorough: bool = False) -> list[tuple[str, str]]:
    """(field, what is wrong and what to do) of each; empty for bases that start from no picture.

    thorough  decode each picture and look into a dataset of the hub, too, which a page does not wait for
    """
    if not config.model.takes_first_frame():
        return []
    own = config.model.first_frame_of_all()
    if own is not None and (reason := first_frames.fault_of(own, thorough)):
        return [("model.first_frame", reason)]
    if config.groups is not None and own is None:
        return [("model.first_frame", "stored groups keep texts alone; give the picture that their videos start from")]
    found = []
    for field, name, prompts in _lists(config, thorough):
        faults = first_frames.unusable(prompts, thorough) or (first_frames.lacking(prompts) if own is None else [])
        if faults:
            found.append((field, _told(name, faults)))
    return found


def require(config: RunConfig) -> None:
    """Raises ValueError with the first problem."""
    for field, what in problems(config, thorough=True):
        raise ValueError(f"{field}: {what}")


def forbid_own(config: RunConfig, why: str) -> None:
    """Raises ValueError, with the reason, where prompts of an image-to-video run have first frames of their own."""
    if not config.model.takes_first_frame():
        return
    for field, _, prompts in _lists(config, load_datasets=True):
        if any(one.first_frame is not None for one in prompts):
            raise ValueError(f"{field}: {why}; remove the column first_frame and give model.first_frame")


def _lists(config: RunConfig, load_datasets: bool) -> list[tuple[str, str, Sequence[Prompt]]]:
    """(field, name, prompts) of what a run trains on and is evaluated on. Of a built-in world one prompt tells all."""
    source, listed = config.prompts, config.evaluation.prompts
    evaluated = ("evaluation.prompts", listed, sources.held_out(listed))
    if config.groups is not None:
        return [evaluated]
    if isinstance(source, sources.FilePrompts):
        return [("prompts.path", source.path, sources.usable(source.read(), source.name)), evaluated]
    if not isinstance(source, sources.DatasetPrompts):
        return [("prompts.source", source.source, source.batch(config.seed, 0)[:1]), evaluated]
    loaded = [("prompts.id", source.name, sources.usable(source.read(), source.name))] if load_datasets else []
    return [*loaded, evaluated]


def _told(name: str, faults: Sequence[Fault]) -> str:
    shown = "; ".join(f"line {one.line}: {one.reason}" if one.line else one.reason for one in faults[:SHOWN])
    return (
        f"{name}: {len(faults)} prompts have no first frame that this image-to-video base could start from ({shown}); "
        "give each a picture in the column first_frame, or all one in model.first_frame"
    )
