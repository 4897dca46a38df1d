"""Weights by a public id or a path, with errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from pydantic import Field

NEWEST = "main"


def commit(pinned: str | None) -> Any:
    """The field of a revision."""
    return Field(pinned, description="Commit of its repository on the hub; empty = the newest; none for files on disk")


@contextmanager
def loading(field: str, where: str) -> Iterator[None]:
    """Turns what goes wrong while a checkpoint is fetched or read into a ValueError."""
    try:
        yield
    except (OSError, EOFError, KeyError, RuntimeError, UnpicklingError) as error:
        raise ValueError(
            f"{field}: {where!r} cannot be loaded ({type(error).__name__}: {error}); check the name and the revision, "
            "download it while there is a network, or name a folder or file that holds it"
        ) from error


def find(where: str, revision: str | None = None) -> Path:
    """A file on disk, or one of a repository of the Hugging Face hub as owner/name/file. Raises OSError."""
    from huggingface_hub import hf_hub_download

    if Path(where).is_file():
        return Path(where)
    owner, _, rest = where.partition("/")
    name, _, file = rest.partition("/")
    if not file or where.startswith(("/", ".")):
        raise FileNotFoundError("it is neither a file nor owner/name/file of the hub")
    return Path(hf_hub_download(f"{owner}/{name}", file, revision=revision))
