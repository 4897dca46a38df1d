from __future__ import annotations

from pathlib import Path

import pytest

from db.settings import settings


def test_defaults_need_no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("ESPALIER_DATA", "DATABASE_URL", "CELERY_BROKER_URL", "ESPALIER_HOST", "ESPALIER_PORT", "PUBLIC_URL")
    for name in (*names, "ESPALIER_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    found = settings()
    assert found.data == tmp_path / "data"
    assert found.database_url == f"sqlite:///{tmp_path}/data/espalier.db"
    assert (found.broker_url, found.host, found.port, found.public_url) == (None, "127.0.0.1", 7860, None)
    assert found.password is None
    assert found.run_dir("r1") == tmp_path / "data" / "runs" / "r1"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("postgresql://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgres://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql+psycopg://u@h/d", "postgresql+psycopg://u@h/d"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
    ],
)
def test_driver_of_postgres_is_filled_in(monkeypatch: pytest.MonkeyPatch, given: str, url: str) -> None:
    monkeypatch.setenv("DATABASE_URL", given)
    assert settings().database_url == url


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://h/d"),
        ("ESPALIER_PORT", "http"),
        ("ESPALIER_PASSWORD", "secret"),
        ("ESPALIER_PASSWORD", "correct horse "),
        ("ESPALIER_PASSWORD", "\tcorrect horse"),
    ],
)
def test_bad_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=name):
        settings()


def test_password_is_read_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_PASSWORD", "correct horse")
    assert settings().password == "correct horse"
    assert "horse" not in repr(settings())
    monkeypatch.setenv("ESPALIER_PASSWORD", "")  # as docker compose passes a variable that is not set
    assert settings().password is None
