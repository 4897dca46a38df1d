"""Media files by their content's hash."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Artifact
from db.upsert import upsert


def put(session: Session, artifacts: list[dict[str, Any]]) -> None:
    """Each has sha256, mime, width, height, bytes, path (relative to ESPALIER_DATA) and poster."""
    upsert(session, Artifact, artifacts)


def get(session: Session, sha256: str) -> Artifact:
    """LookupError when there is none."""
    artifact = session.get(Artifact, sha256)
    if artifact is None:
        raise LookupError(f"media {sha256}: there is none of this hash")
    return artifact


def several(session: Session, hashes: list[str]) -> dict[str, Artifact]:
    """Those that are stored, by hash."""
    return {row.sha256: row for row in session.scalars(select(Artifact).where(Artifact.sha256.in_(hashes)))}
