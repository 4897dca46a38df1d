"""The report of an import of prompts, as the command prints it and the launch page shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Repeated(BaseModel):
    """A text, and the lines that have it."""

    text: str
    lines: list[int]


class Bad(BaseModel):
    line: int
    reason: str


class Overlap(BaseModel):
    """Texts that are among other prompts, too. num counts them; prompts may be only the first of them."""

    against: str
    num: int
    prompts: list[Repeated]


class Report(BaseModel):
    """unit: what a line number counts. num_*: of all, where a list may be only the first few.

    num_prompts    rows that are prompts, duplicates included;  num_distinct  different texts
    num_repeated   texts that occur more than once;  num_bad  rows that are no prompts;  num_blank  empty rows
    num_negative   rows with a negative prompt of their own, for classifier-free guidance
    num_image      rows with an image: kept, and not used by the models here
    num_first_frame  rows with a first frame of their own, for image-to-video bases
    tasks          rows of each task;  metadata  rows that have each further column;  left_out  columns of binary data
    """

    name: str
    unit: Literal["line", "row"]
    num_prompts: int
    num_distinct: int
    num_blank: int
    num_repeated: int
    num_bad: int
    num_negative: int
    num_image: int
    num_first_frame: int = 0
    repeated: list[Repeated]
    bad: list[Bad]
    tasks: dict[str, int]
    metadata: dict[str, int]
    left_out: list[str]
    overlap: Overlap | None = None


def shortened(report: Report, most: int) -> Report:
    """At most so many of each list; the counts stay."""
    less = None
    if report.overlap is not None:
        less = report.overlap.model_copy(update={"prompts": report.overlap.prompts[:most]})
    return report.model_copy(update={"repeated": report.repeated[:most], "bad": report.bad[:most], "overlap": less})
