"""One row a vote, with all that is known of it, as parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict

from pydantic import TypeAdapter

from backend.preferences.opinion import Opinion

AS_JSON = ("aspects", "scores_left", "scores_right")


def write(found: Sequence[Opinion], media_url: str) -> bytes:
    """Pictures are named by their hash alone."""
    import pyarrow
    import pyarrow.parquet

    rows = [asdict(one) | {name: json.dumps(getattr(one, name)) for name in AS_JSON} for one in found]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def read(data: bytes) -> list[Opinion]:
    """Raises ValueError when data is no parquet file, or its rows are no votes."""
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    except pyarrow.ArrowInvalid as broken:
        raise ValueError(f"file: not a parquet file: {broken}") from broken
    parsed = [row | {name: json.loads(row[name]) for name in AS_JSON if name in row} for row in rows]
    return TypeAdapter(list[Opinion]).validate_python(parsed)
