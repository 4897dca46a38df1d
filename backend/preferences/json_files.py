"""HPD and chosen/rejected: votes that choose a side, as JSON and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, TypeAdapter

from backend.preferences.archive import Answer, Kind, Scores
from backend.preferences.opinion import Opinion
from backend.preferences.pictures import address, image_of


class HpdRow(BaseModel):
    human_preference: tuple[int, int]
    prompt: str
    file_path: tuple[str, str]
    user_hash: str
    model: tuple[str, str]


class ChosenRow(BaseModel):
    """What only we write has defaults: files of others have prompt, chosen and rejected.

    seed: of the chosen one's noise, and rejected_seed that of the other where it differs.
    """

    prompt: str
    chosen: str
    rejected: str
    chosen_model: str = "chosen"
    rejected_model: str = "rejected"
    chosen_scores: Scores = {}
    rejected_scores: Scores = {}
    chosen_was_left: bool = True
    reviewer: str = "unknown"
    aspects: dict[str, Answer] = {}
    created_at: datetime | None = None
    milliseconds: int = 0
    seed: int = 0
    rejected_seed: int | None = None
    task: str | None = None
    kind: Kind = "image"


def write_hpd(found: Sequence[Opinion], media_url: str) -> bytes:
    rows = [
        {
            "human_preference": [int(one.choice == "left"), int(one.choice == "right")],
            "prompt": one.prompt,
            "file_path": [address(one.left, media_url), address(one.right, media_url)],
            "user_hash": one.reviewer,
            "model": [one.model_left, one.model_right],
        }
        for one in found
        if one.choice in ("left", "right")
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False).encode()


def read_hpd(data: bytes) -> list[Opinion]:
    return [
        Opinion(
            prompt=row.prompt,
            left=image_of(row.file_path[0]),
            right=image_of(row.file_path[1]),
            model_left=row.model[0],
            model_right=row.model[1],
            choice="left" if row.human_preference[0] else "right",
            reviewer=row.user_hash,
        )
        for row in TypeAdapter(list[HpdRow]).validate_json(data)
    ]


def write_chosen(found: Sequence[Opinion], media_url: str) -> bytes:
    lines = []
    for one in found:
        left = (one.left, one.model_left, one.scores_left, one.seeds[0])
        right = (one.right, one.model_right, one.scores_right, one.seeds[1])
        if one.choice not in ("left", "right"):
            continue
        better, worse = (left, right) if one.choice == "left" else (right, left)
        row = ChosenRow(
            prompt=one.prompt,
            chosen=address(better[0], media_url),
            rejected=address(worse[0], media_url),
            chosen_model=better[1],
            rejected_model=worse[1],
            chosen_scores=better[2],
            rejected_scores=worse[2],
            chosen_was_left=one.choice == "left",
            reviewer=one.reviewer,
            aspects=one.aspects,
            created_at=one.created_at,
            milliseconds=one.milliseconds,
            seed=better[3],
            rejected_seed=None if worse[3] == better[3] else worse[3],
            task=one.task,
            kind=one.kind,
        )
        lines.append(row.model_dump_json() + "\n")
    return "".join(lines).encode()


def read_chosen(data: bytes) -> list[Opinion]:
    lines = [line for line in data.decode("utf-8-sig").split("\n") if line.strip()]
    return [_opinion(ChosenRow.model_validate_json(line)) for line in lines]


def _opinion(row: ChosenRow) -> Opinion:
    other_seed = row.seed if row.rejected_seed is None else row.rejected_seed
    chosen = (image_of(row.chosen), row.chosen_model, row.chosen_scores, row.seed)
    rejected = (image_of(row.rejected), row.rejected_model, row.rejected_scores, other_seed)
    left, right = (chosen, rejected) if row.chosen_was_left else (rejected, chosen)
    return Opinion(
        prompt=row.prompt,
        left=left[0],
        right=right[0],
        model_left=left[1],
        model_right=right[1],
        choice="left" if row.chosen_was_left else "right",
        reviewer=row.reviewer,
        aspects=row.aspects,
        created_at=row.created_at,
        milliseconds=row.milliseconds,
        seed=left[3],
        seed_right=None if right[3] == left[3] else right[3],
        task=row.task,
        kind=row.kind,
        scores_left=left[2],
        scores_right=right[2],
    )
