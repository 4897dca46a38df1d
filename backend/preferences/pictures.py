"""How files name pictures: by the address of their hash, or by whatever another tool called them."""

from __future__ import annotations

import re

HASH = re.compile(r"(?:.*/)?([0-9a-f]{64})(?:\.\w+)?")


def address(image: str, media_url: str) -> str:
    """The address of a hash below media_url, anything else as it is."""
    return media_url + image if HASH.fullmatch(image) else image


def image_of(text: str) -> str:
    """The hash at the end of an address, anything else as it is."""
    match = HASH.fullmatch(text)
    return match[1] if match else text
