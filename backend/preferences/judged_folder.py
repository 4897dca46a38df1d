"""A folder of judged pairs: the votes of a review set with the pictures that were judged, for a trainer to read.

    votes.json   an `Archive` in its native form
    media/       the pictures of the decided pairs, each under the name that the archive gives it and a suffix

It is written whole or not at all, and never changed: other votes make another folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from backend.preferences import exchange
from backend.preferences.archive import Archive
from backend.preferences.decided import Decided, decided

VOTES, MEDIA = "votes.json", "media"


def is_judged(folder: Path) -> bool:
    return (folder / VOTES).is_file()


def write(root: Path, archive: Archive, picture: Callable[[str], Path]) -> Path:
    """The folder of these votes below root, named by their content; the one that is there where it was made before.

    picture: the file of a picture by its name. LookupError, or the file's OSError, where one is missing.
    """
    data = exchange.write(archive, exchange.NATIVE)
    folder = root / hashlib.sha256(data).hexdigest()[:16]
    if is_judged(folder):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=root, prefix=".writing-"))
    try:
        (temporary / MEDIA).mkdir()
        for pair in decided(archive).pairs:
            for name in (pair.better, pair.worse):
                source = picture(name)
                shutil.copyfile(source, temporary / MEDIA / f"{name}{source.suffix}")
        (temporary / VOTES).write_bytes(data)
        temporary.chmod(0o755)
        try:
            os.rename(temporary, folder)
        except OSError:
            if not is_judged(folder):  # else the same votes were written at the same time
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def archive(folder: Path) -> Archive:
    """The votes. ValueError where it is not such a folder."""
    if not is_judged(folder):
        raise ValueError(f"votes: {folder} holds no {VOTES}; make it with `espalier votes train SET`")
    return exchange.read((folder / VOTES).read_bytes(), exchange.NATIVE, folder.name, "local")


def read(folder: Path) -> tuple[Decided, dict[str, Path]]:
    """The decided pairs, and the file of each of their pictures. ValueError where it is not such a folder and whole."""
    found = decided(archive(folder))
    files = {path.stem: path for path in (folder / MEDIA).iterdir()}
    for pair in found.pairs:
        for name in (pair.better, pair.worse):
            if name not in files:
                raise ValueError(f"votes: picture {name} is missing in {folder / MEDIA}; make the folder again")
    return found, files
