"""A dataset of the Hugging Face hub as records, read by the library `datasets`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from backend.prompts.reading import Read, of_rows
from backend.prompts.rows import Fault, Row, named, renamed


@lru_cache(maxsize=2)
def read(name: str, subset: str | None, split: str, revision: str | None, column: str | None) -> Read:
    """One split. Columns that hold no plain value, such as pictures, are left out.

    Raises ValueError where the library is not installed, and where the dataset, its split or its column is not there.
    """
    try:
        import datasets
    except ImportError as error:
        raise ValueError(
            "prompts.source: dataset needs the library datasets; install it with "
            "`.venv/bin/pip install -e '.[datasets]'`, "
            "or save the prompts to a file and use the source file"
        ) from error
    try:
        loaded = datasets.load_dataset(name, subset, split=split, revision=revision)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"prompts.id: the split {split!r} of {name!r} could not be loaded: {error}; check id, subset and split, "
            "and that this machine reaches the hub or has the dataset in its cache"
        ) from error
    plain = [one for one, feature in loaded.features.items() if _is_plain(feature)]
    left_out = tuple(one for one in loaded.column_names if one not in plain)
    try:
        source = named(plain, column)
    except ValueError as error:
        raise ValueError(f"prompts.column: {name}: {error}") from error
    faults: list[Fault] = []
    found = of_rows(_rows(loaded.select_columns(plain), source), faults, left_out, "")
    texts = "\n".join(one.text for one in found.prompts)
    return Read(found.prompts, found.faults, found.blank, left_out, hashlib.sha256(texts.encode()).hexdigest())


def _is_plain(feature: Any) -> bool:
    return "binary" not in str(getattr(feature, "dtype", "binary")) and type(feature).__name__ == "Value"


def _rows(loaded: Any, source: str) -> Iterator[Row]:
    for line, row in enumerate(loaded, start=1):
        yield line, renamed(row, source)
