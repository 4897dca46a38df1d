"""What the environment says: where data lives, which database, which broker, which address."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """data: absolute folder; broker_url: None means the embedded broker; public_url: None means http://host:port."""

    data: Path
    database_url: str
    broker_url: str | None
    host: str
    port: int
    public_url: str | None

    @property
    def runs(self) -> Path:
        return self.data / "runs"

    def run_dir(self, run_id: str) -> Path:
        return self.runs / run_id


def settings() -> Settings:
    """Reads os.environ at each call. ValueError when ESPALIER_PORT is not a port."""
    data = Path(os.environ.get("ESPALIER_DATA") or "data").resolve()
    port = os.environ.get("ESPALIER_PORT") or "7860"
    if not port.isdigit() or not 0 <= int(port) < 65536:
        raise ValueError(f"ESPALIER_PORT: {port!r} is not a port; give a number from 0 to 65535")
    return Settings(
        data=data,
        database_url=with_driver(os.environ.get("DATABASE_URL") or f"sqlite:///{data / 'espalier.db'}"),
        broker_url=os.environ.get("CELERY_BROKER_URL") or None,
        host=os.environ.get("ESPALIER_HOST") or "127.0.0.1",
        port=int(port),
        public_url=(os.environ.get("PUBLIC_URL") or "").rstrip("/") or None,
    )


def with_driver(url: str) -> str:
    """A database URL with the driver that Espalier installs. ValueError for another kind of database."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("sqlite", "postgres", "postgresql"):
        raise ValueError("DATABASE_URL: not a database that Espalier knows; give sqlite:///FILE or postgresql://...")
    return f"postgresql+psycopg://{rest}" if scheme in ("postgres", "postgresql") else url
