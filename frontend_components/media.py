"""Images and videos by the hash of their content: /media/<sha256>. No path ever comes from outside."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import FileResponse, Response

from db import artifacts
from db.session import reading
from db.settings import settings

router = APIRouter()


@router.get("/media/{sha256}")
def media(sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$")], request: Request) -> Response:
    """The bytes of one artifact. The name is the content, so a copy never goes stale; ranges are honoured."""
    with reading() as session:
        try:
            row = artifacts.get(session, sha256)
        except LookupError as missing:
            raise HTTPException(404, f"no media {sha256}") from missing
        path, mime = settings().data / row.path, row.mime
    headers = {"Cache-Control": "private, max-age=31536000, immutable", "ETag": f'"{sha256}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if not path.is_file():
        raise HTTPException(404, f"media {sha256} is recorded, but its file is gone from {path.parent}")
    return FileResponse(path, media_type=mime, headers=headers)
