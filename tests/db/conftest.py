from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from db import runs
from db.models import Run
from db.session import engine, migrate, writing
from tests.db.databases import empty_database, postgres_database, use


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a migrated database that tests copy."""
    folder = tmp_path_factory.mktemp("template")
    with empty_database(request.param, folder) as url, pytest.MonkeyPatch.context() as patch:
        use(patch, folder, url)
        migrate()
        yield url


@pytest.fixture
def database(template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if template.startswith("sqlite"):
        use(monkeypatch, tmp_path)
        shutil.copy(template.removeprefix("sqlite:///"), tmp_path / "espalier.db")
        yield
        engine().dispose()
        return
    with postgres_database(template.rpartition("/")[2]) as url:
        use(monkeypatch, tmp_path, url)
        yield
        engine().dispose()


@pytest.fixture
def run(database: None) -> Run:
    with writing() as session:
        return runs.create(session, name="one", config={"steps": 5}, preset="shapes", owner="ada")
