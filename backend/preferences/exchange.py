"""Votes in files: our own form, which holds all of a set, and those that other tools read.

    native            JSON of an `Archive`; a round trip loses nothing
    pickapic          CSV, the columns of Pick-a-Pic without its image bytes; both bad reads as a tie
    hpd               JSON, train.json of HPD v2 and `model`; votes that choose a side
    videoalign        CSV, the columns of VideoGen-RewardBench and `reviewer`; both bad reads as "same"
    chosen_rejected   JSON lines; votes that choose a side
    parquet           one row a vote with all that is known of it; needs pyarrow

Image 0, A and the first of two is what stood on the left. Pictures are named by `media_url` + sha256.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from backend.preferences import csv_files, json_files, parquet_files
from backend.preferences.archive import Archive
from backend.preferences.opinion import Opinion, gather, opinions

NATIVE = "native"


@dataclass(frozen=True)
class Format:
    """write: opinions and the prefix of media addresses to bytes; read: bytes to opinions."""

    mime: str
    suffix: str
    write: Callable[[Sequence[Opinion], str], bytes]
    read: Callable[[bytes], list[Opinion]]


FORMATS = {
    "pickapic": Format("text/csv", "csv", csv_files.write_pickapic, csv_files.read_pickapic),
    "hpd": Format("application/json", "json", json_files.write_hpd, json_files.read_hpd),
    "videoalign": Format("text/csv", "csv", csv_files.write_videoalign, csv_files.read_videoalign),
    "chosen_rejected": Format("application/jsonl", "jsonl", json_files.write_chosen, json_files.read_chosen),
    "parquet": Format("application/vnd.apache.parquet", "parquet", parquet_files.write, parquet_files.read),
}
NAMES = (NATIVE, *FORMATS)


def write(archive: Archive, form: str, media_url: str = "media/") -> bytes:
    """The file's content. ValueError for an unknown format, and for parquet without pyarrow."""
    if form == NATIVE:
        return archive.model_dump_json(indent=1).encode()
    return _named(form).write(opinions(archive), media_url)


def read(data: bytes, form: str, name: str, owner: str) -> Archive:
    """A set from a file; name and owner are for files that have none. ValueError that says what is wrong with it."""
    try:
        if form == NATIVE:
            return Archive.model_validate_json(data)
        return gather(_named(form).read(data), name, owner, datetime.now(UTC))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"file: {place or form}: {message}; is it a {form} file?") from invalid
    except (UnicodeDecodeError, csv.Error) as broken:
        raise ValueError(f"file: not a {form} file: {broken}") from broken


def file_type(form: str) -> tuple[str, str]:
    """MIME type and suffix of a format."""
    return ("application/json", "json") if form == NATIVE else (_named(form).mime, _named(form).suffix)


def _named(form: str) -> Format:
    if form not in FORMATS:
        raise ValueError(f"format: {form!r} is not one of {', '.join(NAMES)}")
    return FORMATS[form]
