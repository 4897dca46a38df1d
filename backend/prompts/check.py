"""What an import of prompts finds: counts, duplicates, rows that are no prompts, and overlap with other prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from backend.prompts import first_frames
from backend.prompts.reading import Read
from backend.prompts.record import Prompt
from backend.prompts.report import Bad, Overlap, Repeated, Report
from backend.prompts.sources import DatasetPrompts, FilePrompts, WorldPrompts, held_out, listed, usable


def same(text: str) -> str:
    """Texts that differ in case or in spaces alone count as one."""
    return " ".join(text.casefold().split())


def check(found: Read, name: str, against: str | None = None) -> Report:
    """against: the test list of a built-in world, or a file of prompts. ValueError where that cannot be read."""
    prompts = found.prompts
    faults = sorted((*found.faults, *first_frames.unusable(prompts)), key=lambda one: one.line)
    by_text = lines_of(prompts)
    repeated = [Repeated(text=text, lines=lines) for text, lines in by_text.values() if len(lines) > 1]
    return Report(
        name=name,
        unit="row" if name.lower().endswith(".parquet") else "line",
        num_prompts=len(prompts),
        num_distinct=len(by_text),
        num_blank=found.blank,
        num_repeated=len(repeated),
        num_bad=len(faults),
        num_negative=sum(one.negative_prompt is not None for one in prompts),
        num_image=sum(one.image is not None for one in prompts),
        num_first_frame=sum(one.first_frame is not None for one in prompts),
        repeated=repeated,
        bad=[Bad(line=one.line, reason=one.reason) for one in faults],
        tasks=dict(Counter(one.task for one in prompts if one.task)),
        metadata=dict(Counter(name for one in prompts for name in one.metadata)),
        left_out=list(found.left_out),
        overlap=None if against is None else overlap(prompts, against),
    )


def overlap(prompts: Sequence[Prompt], against: str) -> Overlap:
    others = {same(one.text) for one in listed(against)}
    shared = [Repeated(text=text, lines=lines) for key, (text, lines) in lines_of(prompts).items() if key in others]
    return Overlap(against=against, num=len(shared), prompts=shared)


def lines_of(prompts: Sequence[Prompt]) -> dict[str, tuple[str, list[int]]]:
    """By comparable text: the text as it was first written, and its lines."""
    found: dict[str, tuple[str, list[int]]] = {}
    for one in prompts:
        found.setdefault(same(one.text), (one.text, []))[1].append(one.line)
    return found


def facts(source: WorldPrompts | FilePrompts | DatasetPrompts, evaluated: str) -> dict[str, str]:
    """What a run says of its prompts when it starts. Reading them here fails before anything is sampled."""
    held_out(evaluated)
    if isinstance(source, WorldPrompts):
        return {}
    found = source.read()
    prompts = usable(found, source.name)
    shared = overlap(prompts, evaluated).num
    return {
        "prompts": f"{source.name}: {len(prompts)} prompts, {len(lines_of(prompts))} different, "
        f"{shared} of them also in {evaluated}; sha256 {found.sha256[:16]}"
    }
