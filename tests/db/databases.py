"""Databases for tests: SQLite in the test's folder, and PostgreSQL where the environment names a test server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from db.settings import with_driver

SERVER = "ESPALIER_TEST_POSTGRES"
NO_SERVER = f"{SERVER} names no PostgreSQL server, such as postgresql://postgres@127.0.0.1:5432/"


def use(monkeypatch: pytest.MonkeyPatch, folder: Path, url: str | None = None) -> None:
    """Sets the environment to a data folder and a database; the default database for None."""
    for name in ("DATABASE_URL", "CELERY_BROKER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ESPALIER_DATA", str(folder))
    if url is not None:
        monkeypatch.setenv("DATABASE_URL", url)


@contextmanager
def postgres_database(template: str = "template1") -> Iterator[str]:
    """The URL of a new database, which is dropped at exit. Skips without a server."""
    server = os.environ.get(SERVER)
    if not server:
        pytest.skip(NO_SERVER)
    base, name = with_driver(server.rstrip("/")), f"espalier_test_{uuid.uuid4().hex}"
    admin = create_engine(f"{base}/postgres", isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    try:
        yield f"{base}/{name}"
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@contextmanager
def empty_database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'espalier.db'}"
    else:
        with postgres_database() as url:
            yield url
