"""Pick-a-Pic and VideoGen-RewardBench: votes as CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, TypeAdapter

from backend.preferences.archive import Answer
from backend.preferences.opinion import Opinion
from backend.preferences.pictures import address, image_of

SIDES = ("left", "right")
PICKAPIC = (
    "are_different", "best_image_uid", "caption", "created_at", "has_label", "image_0_uid", "image_0_url",
    "image_1_uid", "image_1_url", "label_0", "label_1", "model_0", "model_1", "ranking_id", "user_id",
    "num_example_per_prompt",
)  # fmt: skip
ASPECTS = {"VQ": "quality", "MQ": "motion", "TA": "alignment"}
VIDEOALIGN = ("path_A", "path_B", "A_model", "B_model", "prompt", *ASPECTS, "Overall", "reviewer")
SAME = {"left": "A", "right": "B", "tie": "same", "both_bad": "same"}
ANSWERS: dict[str, Answer] = {"A": "left", "B": "right", "same": "tie"}


class PickapicRow(BaseModel):
    caption: str
    created_at: str = ""
    has_label: bool
    image_0_uid: str
    image_1_uid: str
    label_0: float
    model_0: str
    model_1: str
    user_id: str


class VideoalignRow(BaseModel):
    path_A: str
    path_B: str
    A_model: str
    B_model: str
    prompt: str
    VQ: str = ""
    MQ: str = ""
    TA: str = ""
    Overall: str
    reviewer: str = "unknown"


def write_pickapic(found: Sequence[Opinion], media_url: str) -> bytes:
    """label_0 and label_1 are 1 and 0, or 0.5 each; a skipped pair has no label."""
    of_prompt = Counter(one.prompt for one in found)
    rows = []
    for number, one in enumerate(found):
        labels = {"left": (1.0, 0.0), "right": (0.0, 1.0), "skip": (0.0, 0.0)}.get(one.choice, (0.5, 0.5))
        best = {"left": one.left, "right": one.right}.get(one.choice, "")
        cells = (
            one.left != one.right, best, one.prompt, one.created_at.isoformat() if one.created_at else "",
            one.choice != "skip", one.left, address(one.left, media_url), one.right, address(one.right, media_url),
            *labels, one.model_left, one.model_right, number, one.reviewer, of_prompt[one.prompt],
        )  # fmt: skip
        rows.append(dict(zip(PICKAPIC, cells, strict=True)))
    return _write(PICKAPIC, rows)


def read_pickapic(data: bytes) -> list[Opinion]:
    return [
        Opinion(
            prompt=row.caption,
            left=row.image_0_uid,
            right=row.image_1_uid,
            model_left=row.model_0,
            model_right=row.model_1,
            choice=_labelled(row),
            reviewer=row.user_id,
            created_at=_time(row.created_at),
        )
        for row in TypeAdapter(list[PickapicRow]).validate_python(_read(data))
    ]


def write_videoalign(found: Sequence[Opinion], media_url: str) -> bytes:
    """A, B or same, for each aspect and overall; empty where it was not judged."""
    rows = [
        {
            "path_A": address(one.left, media_url),
            "path_B": address(one.right, media_url),
            "A_model": one.model_left,
            "B_model": one.model_right,
            "prompt": one.prompt,
            "Overall": SAME.get(one.choice, ""),
            "reviewer": one.reviewer,
        }
        | {column: SAME.get(one.aspects.get(aspect, ""), "") for column, aspect in ASPECTS.items()}
        for one in found
    ]
    return _write(VIDEOALIGN, rows)


def read_videoalign(data: bytes) -> list[Opinion]:
    found = []
    for row in TypeAdapter(list[VideoalignRow]).validate_python(_read(data)):
        labels = {"quality": row.VQ, "motion": row.MQ, "alignment": row.TA}
        found.append(
            Opinion(
                prompt=row.prompt,
                left=image_of(row.path_A),
                right=image_of(row.path_B),
                model_left=row.A_model,
                model_right=row.B_model,
                choice=ANSWERS.get(row.Overall, "skip"),
                reviewer=row.reviewer,
                aspects={aspect: ANSWERS[label] for aspect, label in labels.items() if label in ANSWERS},
                kind="video",
            )
        )
    return found


def _labelled(row: PickapicRow) -> Answer:
    if not row.has_label:
        return "skip"
    return "left" if row.label_0 > 0.5 else "right" if row.label_0 < 0.5 else "tie"


def _time(text: str) -> datetime | None:
    if not text:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _write(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _read(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), restval=""))
