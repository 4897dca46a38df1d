"""An answer from bytes in memory that honours one range (RFC 9110, section 14), as players of video ask for it."""

from __future__ import annotations

import re

from fastapi import Response

RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def ranged(data: bytes, mime: str, asked: str | None) -> Response:
    """All of it, or 206 with one range of it; 416 for a range beyond its end. Other wishes are ignored."""
    headers = {"Cache-Control": "private, max-age=86400", "Accept-Ranges": "bytes"}
    match = RANGE.fullmatch(asked or "")
    if match is None or match.groups() == ("", ""):
        return Response(data, media_type=mime, headers=headers)
    first, last = match.groups()
    start = int(first) if first else max(0, len(data) - int(last))
    stop = min(int(last) + 1, len(data)) if first and last else len(data)
    if start >= stop:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return Response(data[start:stop], 206, media_type=mime, headers=headers)
