"""The rows of a file of prompts, each a mapping with its prompt under "prompt". What is no row becomes a fault."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = ("prompt", "prompts", "caption", "text")
TOGETHER = 4096

Row = tuple[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Fault:
    """A row that is no prompt. line: where it begins, from 1."""

    line: int
    reason: str


def lines(data: bytes, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Lines end in LF or CRLF and in nothing else: prompts may hold the other characters that str.splitlines knows."""
    parts = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line, part in enumerate(parts[:-1] if parts[-1] == b"" else parts, start=1):
        try:
            yield line, part.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            faults.append(Fault(line, f"byte {error.start + 1} of the line, 0x{part[error.start]:02x}, is not UTF-8"))


def objects(data: bytes, column: str | None, faults: list[Fault]) -> Iterator[Row]:
    """One JSON object a line; a blank line is an empty row."""
    for line, written in lines(data, faults):
        if not written.strip():
            yield line, {}
            continue
        try:
            row = json.loads(written)
            if not isinstance(row, dict):
                raise ValueError(f"not an object with a prompt: {written.strip()[:80]}")
            source = named(row, column)
            if row[source] in (None, ""):
                raise ValueError("the prompt is empty")
            yield line, renamed(row, source)
        except json.JSONDecodeError as error:
            faults.append(Fault(line, f"not JSON: {error.msg} at column {error.colno}"))
        except ValueError as error:
            faults.append(Fault(line, str(error)))


def table(text: str, kind: str, column: str | None, faults: list[Fault], path: Path) -> Iterator[Row]:
    """A header, then rows of as many cells. Raises ValueError for a header that cannot be used."""
    given = io.StringIO(text, newline="")
    if kind == ".csv":
        rows = csv.reader(given, strict=True)
    else:
        rows = csv.reader(given, delimiter="\t", quoting=csv.QUOTE_NONE)
    header: list[str] = []
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            until = f", up to line {rows.line_num}" if rows.line_num > line else ""
            faults.append(Fault(line, f"no row of a table{until}: {error}"))
            continue
        if not any(cells):
            yield line, {}
        elif not header:
            header = [cell.strip() for cell in cells]
            if repeated := [name for name in header if header.count(name) > 1]:
                raise ValueError(f"{path}: the column {repeated[0]!r} is there twice; rename one")
            place = header.index(_named_in(path, header, column))
        elif len(cells) != len(header):
            faults.append(Fault(line, f"{len(cells)} cells under a header of {len(header)}; quote cells with commas"))
        else:
            yield line, renamed(dict(zip(header, cells, strict=True)), header[place])


def parquet(path: Path, column: str | None) -> tuple[Iterator[Row], tuple[str, ...]]:
    """The rows, and the columns of binary data, which are left out. Raises ValueError where it cannot be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a parquet file: {error}") from error
    binary = tuple(one.name for one in file.schema_arrow if "binary" in str(one.type))
    names = [name for name in file.schema_arrow.names if name not in binary]
    source = _named_in(path, names, column)

    def rows() -> Iterator[Row]:
        line = 0
        for batch in file.iter_batches(batch_size=TOGETHER, columns=names):
            for row in batch.to_pylist():
                line += 1
                yield line, renamed(row, source)

    return rows(), binary


def _named_in(path: Path, names: list[str], column: str | None) -> str:
    try:
        return named(names, column)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; name the one that holds the prompts in `column`") from error


def renamed(row: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The row with its prompt under "prompt". What stood there before, under that name, becomes "prompt (column)"."""
    if source == "prompt":
        return dict(row)
    kept = {("prompt (column)" if name == "prompt" else name): value for name, value in row.items() if name != source}
    return {"prompt": row[source], **kept}


def text(path: Path, data: bytes) -> str:
    """Raises ValueError with the first line that is not UTF-8: a table can be read as a whole only."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}: line {line} is not UTF-8 (byte 0x{data[error.start]:02x}); save it as UTF-8"
        ) from error


def named(names: Iterable[str], column: str | None) -> str:
    """Which of the columns holds the prompt. ValueError where none does."""
    names = list(names)
    for wanted in COLUMNS if column is None else (column,):
        for name in names:
            if name == wanted or (column is None and name.lower() == wanted):
                return name
    wanted = " or ".join(map(repr, COLUMNS if column is None else (column,)))
    raise ValueError(f"no column {wanted}; there is {', '.join(map(repr, names)) or 'none'}")
