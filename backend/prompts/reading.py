"""A file of prompts as records, with what is wrong with each row that is none.

.txt      one prompt a line
.jsonl    one object a line
.csv      a header, then one row a prompt
.tsv      the same between tabs; quotes are a part of the text, as in PartiPrompts
.parquet  one row a prompt

The prompt is in the column `prompt`, `prompts`, `caption` or `text`, in small or large letters, or in the one asked
for. `negative_prompt`, `image`, `first_frame` (a path, relative to the file; in `metadata` it counts as well) and
`metadata` (a mapping, in .csv as JSON) are known; other columns are metadata, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from backend.prompts import rows
from backend.prompts.record import Prompt
from backend.prompts.rows import Fault, Row

ENDINGS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet")
KNOWN = ("negative_prompt", "image", "first_frame", "metadata")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Read:
    """A whole file. Every line is in one of prompts, faults and blank, or is a header.

    blank     empty lines or rows
    left_out  columns that hold binary data, which are not read
    sha256    of the bytes
    """

    prompts: tuple[Prompt, ...]
    faults: tuple[Fault, ...]
    blank: int
    left_out: tuple[str, ...]
    sha256: str


def read(path: Path, column: str | None = None) -> Read:
    """Raises ValueError where the file as a whole cannot be read; a row that cannot is a fault of the result."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path} ends in {path.suffix!r}; prompts are read from {', '.join(ENDINGS)}")
    if not path.is_file():
        raise ValueError(f"{path} does not exist on this machine; give the path of a file")
    found = path.stat()
    return _read(path, column, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, column: str | None, modified: int, size: int) -> Read:
    """modified and size make a file that was written again another one."""
    data = path.read_bytes()
    kind = path.suffix.lower()
    if kind == ".txt" and column is not None:
        raise ValueError(f"{path} has no columns, so {column!r} cannot be one; leave column empty")
    faults: list[Fault] = []
    left_out: tuple[str, ...] = ()
    if kind == ".parquet":
        given, left_out = rows.parquet(path, column)
    elif data.startswith(UTF_16):
        raise ValueError(f"{path} is UTF-16; save it as UTF-8")
    elif kind in (".csv", ".tsv"):
        given = rows.table(rows.text(path, data), kind, column, faults, path)
    elif kind == ".jsonl":
        given = rows.objects(data, column, faults)
    else:
        given = ((line, {"prompt": text}) for line, text in rows.lines(data, faults))
    return of_rows(given, faults, left_out, hashlib.sha256(data).hexdigest(), path.parent)


def of_rows(
    given: Iterable[Row], faults: list[Fault], left_out: tuple[str, ...], sha256: str, folder: Path | None = None
) -> Read:
    """given: their prompt is under "prompt"; an empty row is blank. faults gets those that are found here, too.

    folder: what paths are relative to; without one they must be absolute.
    """
    prompts, blank = [], 0
    for line, row in given:
        filled = {name: value for name, value in row.items() if value is not None and value != ""}
        if all(isinstance(value, str) and not value.strip() for value in filled.values()):
            blank += 1
            continue
        try:
            prompts.append(_prompt(line, filled, folder))
        except ValueError as error:
            faults.append(Fault(line, str(error)))
    return Read(tuple(prompts), tuple(sorted(faults, key=lambda one: one.line)), blank, left_out, sha256)


def _prompt(line: int, row: Mapping[str, Any], folder: Path | None) -> Prompt:
    text = row.get("prompt", "")
    if not isinstance(text, str):
        raise ValueError(f"the prompt is {text!r}, not text")
    if not text.strip():
        raise ValueError("the prompt is empty")
    metadata = _metadata(row.get("metadata", {}))
    if "first_frame" in row and "first_frame" in metadata:
        raise ValueError("'first_frame' is a column and in metadata; keep one of the two")
    plain = {name: row.get(name) for name in ("negative_prompt", "image", "first_frame")}
    plain["first_frame"] = plain["first_frame"] or metadata.pop("first_frame", None)
    if wrong := [name for name, value in plain.items() if value is not None and not isinstance(value, str)]:
        raise ValueError(f"{wrong[0]} is {plain[wrong[0]]!r}, not text")
    others = {name: value for name, value in row.items() if name not in ("prompt", *KNOWN)}
    if twice := sorted(metadata.keys() & others.keys()):
        raise ValueError(f"{twice[0]!r} is a column and in metadata; keep one of the two")
    frame = _path(plain["first_frame"], folder)
    return Prompt(text.strip(), others | metadata, plain["negative_prompt"], plain["image"], line, frame)


def _path(written: str | None, folder: Path | None) -> str | None:
    if written is None or folder is not None:
        return str(folder / written) if written and folder else None
    if not Path(written).is_absolute():
        raise ValueError(f"first_frame: {written!r} is relative, and a dataset has no folder; give an absolute path")
    return written


def _metadata(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"metadata is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"metadata is {value!r}, not a mapping")
    return dict(value)
