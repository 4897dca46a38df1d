"""Alembic's entry point. The connection, its transaction and its lock come from db.session."""

from alembic import context

from db.models import Row

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Row.metadata, render_as_batch=True, compare_type=True)
with context.begin_transaction():
    context.run_migrations()
