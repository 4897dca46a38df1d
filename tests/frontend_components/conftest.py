"""One database with one finished demo run for all tests of the pages' server side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.session import migrate
from frontend_components import api, drafts, live, media
from frontend_components.judging import desk_api, review_api, vote_api
from tests.frontend_components import demo


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The data folder and the id of a demo run of 8 steps in it."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(folder))
        patch.delenv("DATABASE_URL", raising=False)
        migrate()
        yield folder, demo.plant(steps=8, total=8)


@pytest.fixture
def data(planted: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ESPALIER_DATA", str(planted[0]))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    return planted[0]


@pytest.fixture
def run_id(data: Path, planted: tuple[Path, str]) -> str:
    return planted[1]


@pytest.fixture
def client(data: Path) -> TestClient:
    """The JSON side alone, without Gradio."""
    app = FastAPI()
    app.state.hub = live.Hub()
    for part in (api, drafts, live, media, review_api, desk_api, vote_api):
        app.include_router(part.router)
    return TestClient(app)
