"""Column types that hold the same thing on SQLite and PostgreSQL."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator, TypeEngine

BigId = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only INTEGER keys by itself


class UtcTime(TypeDecorator[datetime]):
    """Stores UTC, returns aware datetimes. ValueError for a naive one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"time {value} has no zone; use datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or value.tzinfo is not None:
            return value.astimezone(UTC) if value else None
        return value.replace(tzinfo=UTC)


class PlainText(TypeDecorator[str]):
    """Text without NUL characters, which PostgreSQL refuses."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else value.replace("\0", "")


class Json(TypeDecorator[Any]):
    """JSON with NaN and infinities as null and without NUL characters: SQLite takes both, PostgreSQL neither."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(JSONB() if dialect.name == "postgresql" else JSON())

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        return self.impl_instance.coerce_compared_value(op, value)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return clean(value)


def clean(value: Any) -> Any:
    """A copy of a JSON value in which every number is finite and no text holds a NUL."""
    if isinstance(value, dict):
        return {clean(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.replace("\0", "") if isinstance(value, str) else value
