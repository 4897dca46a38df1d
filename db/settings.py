"""What the environment says: where data lives, which database, which broker, which address."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

SHORTEST_PASSWORD = 8


@dataclass(frozen=True)
class Settings:
    """data: absolute folder; broker_url: None means the embedded broker; public_url: None means http://host:port.

    password: of the pages and the interface; None: they are open to whoever reaches them.
    """

    data: Path
    database_url: str
    broker_url: str | None
    host: str
    port: int
    public_url: str | None
    password: str | None = field(default=None, repr=False)

    @property
    def runs(self) -> Path:
        return self.data / "runs"

    def run_dir(self, run_id: str) -> Path:
        return self.runs / run_id


def settings() -> Settings:
    """Reads os.environ at each call. ValueError where a value cannot be used, with its name and the remedy."""
    data = Path(os.environ.get("ESPALIER_DATA") or "data").resolve()
    port = os.environ.get("ESPALIER_PORT") or "7860"
    if not port.isdigit() or not 0 <= int(port) < 65536:
        raise ValueError(f"ESPALIER_PORT: {port!r} is not a port; give a number from 0 to 65535")
    password = os.environ.get("ESPALIER_PASSWORD") or None
    if password is not None and len(password) < SHORTEST_PASSWORD:
        raise ValueError(f"ESPALIER_PASSWORD: it is shorter than {SHORTEST_PASSWORD} characters; choose a longer one")
    if password is not None and password != password.strip():
        raise ValueError("ESPALIER_PASSWORD: it begins or ends with a blank, which programs cannot send; take it away")
    return Settings(
        data=data,
        database_url=with_driver(os.environ.get("DATABASE_URL") or f"sqlite:///{data / 'espalier.db'}"),
        broker_url=os.environ.get("CELERY_BROKER_URL") or None,
        host=os.environ.get("ESPALIER_HOST") or "127.0.0.1",
        port=int(port),
        public_url=(os.environ.get("PUBLIC_URL") or "").rstrip("/") or None,
        password=password,
    )


def with_driver(url: str) -> str:
    """A database URL with the driver that Espalier installs. ValueError for another kind of database."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("sqlite", "postgres", "postgresql"):
        raise ValueError("DATABASE_URL: not a database that Espalier knows; give sqlite:///FILE or postgresql://...")
    return f"postgresql+psycopg://{rest}" if scheme in ("postgres", "postgresql") else url
