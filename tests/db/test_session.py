from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect, text
from sqlalchemy.exc import OperationalError

from db import runs
from db.models import Row, Run
from db.session import alembic_config, engine, migrate, migration_connection, reading, writing
from tests.db.databases import empty_database, use

PROJECT = Path(__file__).resolve().parents[2]

COUNT_UP = """
import sys
from db import runs
from db.session import writing
for _ in range(40):
    with writing() as session:
        run = runs.get(session, sys.argv[1])
        run.step = run.step + 1
"""


def test_migration_goes_up_without_drift_and_down_again(database: None) -> None:
    with migration_connection() as connection:
        command.check(alembic_config(connection))
    with migration_connection() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert inspect(engine()).get_table_names() == ["alembic_version"]
    migrate()
    assert set(Row.metadata.tables) < set(inspect(engine()).get_table_names())


def test_migrating_again_keeps_the_rows(run: Run) -> None:
    migrate()
    with reading() as session:
        assert runs.get(session, run.id).name == "one"


def test_newer_schema_is_refused(database: None) -> None:
    with writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(RuntimeError, match="newer than this Espalier"):
        migrate()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_that_migrate_together_wait_for_one_another(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with empty_database(kind, tmp_path) as url:
        use(monkeypatch, tmp_path, url)
        code = "from db.session import migrate; migrate()"
        racers = [subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT) for _ in range(3)]
        assert [racer.wait(60) for racer in racers] == [0, 0, 0]
        assert "run" in inspect(engine()).get_table_names()
        engine().dispose()


def test_read_then_write_loses_no_update_on_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path)
    migrate()
    with writing() as session:
        run = runs.create(session, name="counter", config={}, preset=None)
    writers = [subprocess.Popen([sys.executable, "-c", COUNT_UP, run.id], cwd=PROJECT) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with reading() as session:
        assert runs.get(session, run.id).step == 80  # 2 writers x 40


def test_sqlite_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path)
    migrate()
    with writing() as session:
        pragmas = [session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert pragmas == ["wal", 1, 1]
    with pytest.raises(OperationalError, match="readonly"), reading() as session:
        session.execute(text("DELETE FROM run"))


def test_failed_transaction_leaves_nothing(database: None) -> None:
    def fail() -> None:
        with writing() as session:
            runs.create(session, name="gone", config={}, preset=None)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with reading() as session:
        assert runs.listing(session) == []
