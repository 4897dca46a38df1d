"""The picture that an image-to-video base starts a prompt's video from: whether it is there, asked before a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from backend.prompts.record import Prompt
from backend.prompts.rows import Fault


def fault_of(file: str, decode: bool = True) -> str | None:
    """Why a file cannot be a first frame, with the remedy; None when it can. decode: all of its pixels, too."""
    path = Path(file)
    if not path.is_file():
        return f"{file} does not exist; give the path of a picture"
    found = path.stat()
    return _fault_of(file, decode, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=65536)
def _fault_of(file: str, decode: bool, modified: int, size: int) -> str | None:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as picture:
            if decode:
                picture.draft("RGB", (64, 64))  # of a JPEG all bytes are read, and few pixels made
                picture.load()
    except Image.DecompressionBombError as error:
        return f"{file} is too large ({error}); make it smaller"
    except (UnidentifiedImageError, OSError) as error:
        return f"{file} cannot be read as a picture ({error}); save it anew, as PNG or JPEG"
    return None


def unusable(prompts: Sequence[Prompt], decode: bool = True) -> list[Fault]:
    """Prompts whose own first frame is missing or no picture."""
    told = ((one.line, fault_of(one.first_frame, decode)) for one in prompts if one.first_frame is not None)
    return [Fault(line, f"first_frame: {reason}") for line, reason in told if reason]


def lacking(prompts: Sequence[Prompt]) -> list[Fault]:
    """Prompts without a first frame of their own."""
    return [Fault(one.line, "it has no first_frame") for one in prompts if one.first_frame is None]
