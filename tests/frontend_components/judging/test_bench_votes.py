from __future__ import annotations

import json
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect, select, text

from db import runs
from db.models import Artifact, ReviewSet, Vote
from db.session import alembic_config, engine, migrate, migration_connection, reading, writing
from frontend_components.judging import bench_votes
from tests.db.databases import empty_database, use


def test_every_answered_vote_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_DATA", str(tmp_path))
    asked = ["votes", "--reviewers", "3", "--votes", "4", "--pairs", "20", "--think", "0", "--json"]
    assert bench_votes.main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answered"], found["stored"]) == (12, 12)
    assert 0 < found["p50"] <= found["p95"] <= found["p99"] <= found["most"]
    assert list(tmp_path.iterdir()) == []  # it has a folder of its own


SMALL = ["votes", "--reviewers", "2", "--votes", "2", "--pairs", "10", "--think", "0", "--json"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_named_database_is_measured_and_left_empty(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with empty_database(kind, tmp_path) as url:
        use(monkeypatch, tmp_path, url)
        assert bench_votes.main([*SMALL, "--database", url]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["database"] == {"sqlite": "sqlite", "postgres": "postgresql"}[kind]
        assert (found["answered"], found["stored"]) == (4, 4)
        with reading() as session:
            assert [session.scalar(select(row).limit(1)) for row in (ReviewSet, Vote, Artifact)] == [None] * 3
        bench_votes._require_empty()  # of all tables, so that it can be measured again
        engine().dispose()


def test_a_database_in_use_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, tmp_path, url := f"sqlite:///{tmp_path / 'mine.db'}")
    migrate()
    with writing() as session:
        runs.create(session, name="mine", config={}, preset=None)
    with pytest.raises(SystemExit):
        bench_votes.main([*SMALL, "--database", url])
    assert "it holds rows of run" in capsys.readouterr().err
    with reading() as session:
        assert [run.name for run in runs.listing(session)] == ["mine"]


@pytest.mark.parametrize("revision", ["0001", "0002"])
@pytest.mark.parametrize("row", [True, False], ids=["used", "unused"])
def test_a_database_of_an_older_espalier_is_not_migrated(
    row: bool, revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, tmp_path, url := f"sqlite:///{tmp_path / 'mine.db'}")
    with migration_connection() as connection:
        command.upgrade(alembic_config(connection), revision)
        if row:
            connection.execute(text("INSERT INTO worker VALUES ('w', 1, 1, '2026-01-01', '2026-01-01')"))
    before = inspect(engine()).get_table_names()
    with pytest.raises(SystemExit):
        bench_votes.main([*SMALL, "--database", url])
    told = "it holds rows of worker" if row else f"its tables are of revision {revision}, not "
    assert told in capsys.readouterr().err
    assert inspect(engine()).get_table_names() == before
    with reading() as session:
        assert session.scalars(text("SELECT version_num FROM alembic_version")).all() == [revision]
    engine().dispose()


def test_tables_of_another_program_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, tmp_path, url := f"sqlite:///{tmp_path / 'other.db'}")
    with writing() as session:
        session.execute(text('CREATE TABLE "the orders" (id INTEGER)'))
    with pytest.raises(SystemExit):
        bench_votes.main([*SMALL, "--database", url])
    assert "of revision none" in capsys.readouterr().err
    with writing() as session:
        session.execute(text('INSERT INTO "the orders" VALUES (1)'))
    with pytest.raises(SystemExit):
        bench_votes.main([*SMALL, "--database", url])
    assert "it holds rows of the orders" in capsys.readouterr().err
    assert inspect(engine()).get_table_names() == ["the orders"]
    engine().dispose()


def test_another_kind_of_database_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, tmp_path, "")
    with pytest.raises(SystemExit):
        bench_votes.main([*SMALL, "--database", "mysql://u@h/d"])
    assert "DATABASE_URL" in capsys.readouterr().err


def test_more_votes_than_pairs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench_votes.main(["votes", "--votes", "20", "--pairs", "20"])
    assert "fewer votes than pairs" in capsys.readouterr().err


def test_other_measurements_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench_votes.main(["step", "--help"])
    assert "espalier bench step" in capsys.readouterr().out
