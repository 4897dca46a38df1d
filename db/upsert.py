"""Insert or overwrite, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.models import Row


def upsert(session: Session, model: type[Row], rows: list[dict[str, Any]]) -> None:
    """Rows (all with the same keys) replace those of equal primary key, so that a step done again overwrites."""
    if not rows:
        return
    on_postgres = session.get_bind().dialect.name == "postgresql"
    statement = postgresql.insert(model) if on_postgres else sqlite.insert(model)
    keys = [column.name for column in inspect(model).primary_key]
    statement = statement.on_conflict_do_update(
        index_elements=keys, set_={name: statement.excluded[name] for name in rows[0] if name not in keys}
    )
    session.execute(statement, rows)
