"""The engine from DATABASE_URL, transactions for readers and writers, and the schema's migration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from db.settings import settings

BUSY_MILLISECONDS = 15_000
MIGRATION_LOCK = 7_301_148  # any constant: the key of PostgreSQL's advisory lock


def engine() -> Engine:
    """The engine that writes. One for each process, since connections do not survive a fork."""
    return _engine(settings().database_url, "IMMEDIATE", os.getpid())


@contextmanager
def writing() -> Iterator[Session]:
    """A transaction that commits at exit. SQLite locks with the first statement, so that read-then-write is safe."""
    with Session(engine(), expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def reading() -> Iterator[Session]:
    """A consistent view that is never committed. The rows it gives stay usable afterwards."""
    with Session(_engine(settings().database_url, "DEFERRED", os.getpid())) as session:
        yield session


def migrate() -> None:
    """Brings the schema to the newest revision. Processes that do it together wait for one another.

    RuntimeError when a newer Espalier has already migrated this database.
    """
    with migration_connection() as connection:
        config = alembic_config(connection)
        try:
            command.upgrade(config, "head")
        except command.util.CommandError as error:
            raise RuntimeError(
                f"DATABASE_URL: its schema is newer than this Espalier ({error}); update Espalier or use another one"
            ) from error


@contextmanager
def migration_connection() -> Iterator[Connection]:
    """One locked transaction. Foreign keys are off on SQLite, where rebuilding a parent table deletes its children."""
    url = settings().database_url
    _make_parent(url)
    migrating = create_engine(url, poolclass=NullPool)
    if migrating.dialect.name == "sqlite":
        _prepare_sqlite(migrating, "IMMEDIATE", foreign_keys=False)
    with migrating.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        yield connection
        if connection.dialect.name == "sqlite":
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            assert not broken, f"the migration left rows without a parent: {broken[:5]}"
    migrating.dispose()


def alembic_config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@cache
def _engine(url: str, begin: str, process: int) -> Engine:
    _make_parent(url)
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    made = create_engine(url)
    _prepare_sqlite(made, begin, foreign_keys=True)
    return made


def _make_parent(url: str) -> None:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)


def _prepare_sqlite(target: Engine, begin: str, *, foreign_keys: bool) -> None:
    @event.listens_for(target, "connect")
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver would otherwise begin transactions by its own rules
        for pragma in (
            f"busy_timeout={BUSY_MILLISECONDS}",
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "journal_size_limit=67108864",
            f"foreign_keys={'ON' if foreign_keys else 'OFF'}",
            f"query_only={'ON' if begin == 'DEFERRED' else 'OFF'}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(target, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(f"BEGIN {begin}")
