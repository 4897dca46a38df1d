"""Blind review: sets of pairs, reviewers, what they were shown, and their votes."""

import sqlalchemy as sa
from alembic import op

from db.columns import BigId, Json, PlainText, UtcTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_review_set()
    _create_review_model()
    _create_review_pair()
    _create_reviewer()
    _create_showing()
    _create_vote()


def downgrade() -> None:
    for table in ("vote", "showing", "reviewer", "review_pair", "review_model", "review_set"):
        op.drop_table(table)


def _create_review_set() -> None:
    op.create_table(
        "review_set",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", PlainText(), nullable=False),
        sa.Column("owner", PlainText(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("settings", Json(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_review_set")),
    )


def _create_review_model() -> None:
    op.create_table(
        "review_model",
        sa.Column("set_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("label", PlainText(), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=True),
        sa.Column("step", sa.Integer(), nullable=True),
        _of_set("review_model"),
        sa.PrimaryKeyConstraint("set_id", "key", name=op.f("pk_review_model")),
    )


def _create_review_pair() -> None:
    op.create_table(
        "review_pair",
        sa.Column("id", BigId, autoincrement=True, nullable=False),
        sa.Column("set_id", sa.String(length=36), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("prompt_index", sa.Integer(), nullable=False),
        sa.Column("prompt", PlainText(), nullable=False),
        sa.Column("task", PlainText(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("model_a", sa.String(length=255), nullable=False),
        sa.Column("model_b", sa.String(length=255), nullable=False),
        sa.Column("sha_a", PlainText(), nullable=False),
        sa.Column("sha_b", PlainText(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("scores_a", Json(), nullable=False),
        sa.Column("scores_b", Json(), nullable=False),
        sa.Column("repeat_of", BigId, nullable=True),
        sa.Column("flipped", sa.Boolean(), nullable=False),
        sa.Column("handed", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repeat_of"], ["review_pair.id"], name=op.f("fk_review_pair_repeat_of_review_pair"), ondelete="CASCADE"
        ),
        _of_set("review_pair"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_review_pair")),
        sa.UniqueConstraint("set_id", "ordinal", name=op.f("uq_review_pair_set_id_ordinal")),
    )
    op.create_index("ix_review_pair_set_id_handed_place", "review_pair", ["set_id", "handed", "place"], unique=False)


def _create_reviewer() -> None:
    op.create_table(
        "reviewer",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("set_id", sa.String(length=36), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("pseudonym", sa.String(length=255), nullable=False),
        sa.Column("quota", sa.Integer(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        _of_set("reviewer"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviewer")),
        sa.UniqueConstraint("set_id", "pseudonym", name=op.f("uq_reviewer_set_id_pseudonym")),
        sa.UniqueConstraint("token", name=op.f("uq_reviewer_token")),
    )


def _create_showing() -> None:
    op.create_table(
        "showing",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("pair_id", BigId, nullable=False),
        sa.Column("reviewer_id", sa.String(length=36), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("a_is_left", sa.Boolean(), nullable=False),
        sa.Column("shown_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["pair_id"], ["review_pair.id"], name=op.f("fk_showing_pair_id_review_pair"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["reviewer_id"], ["reviewer.id"], name=op.f("fk_showing_reviewer_id_reviewer"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_showing")),
        sa.UniqueConstraint("pair_id", "reviewer_id", name=op.f("uq_showing_pair_id_reviewer_id")),
        sa.UniqueConstraint("reviewer_id", "ordinal", name=op.f("uq_showing_reviewer_id_ordinal")),
    )


def _create_vote() -> None:
    op.create_table(
        "vote",
        sa.Column("id", BigId, autoincrement=True, nullable=False),
        sa.Column("showing_id", sa.String(length=32), nullable=False),
        sa.Column("choice", sa.String(length=8), nullable=False),
        sa.Column("aspects", Json(), nullable=False),
        sa.Column("milliseconds", sa.Integer(), nullable=False),
        sa.Column("client_key", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("undone_at", UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["showing_id"], ["showing.id"], name=op.f("fk_vote_showing_id_showing"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_vote")),
        sa.UniqueConstraint("client_key", name=op.f("uq_vote_client_key")),
    )
    op.create_index(op.f("ix_vote_showing_id"), "vote", ["showing_id"], unique=False)
    standing = sa.text("undone_at IS NULL")
    op.create_index(
        "ix_vote_standing", "vote", ["showing_id"], unique=True, sqlite_where=standing, postgresql_where=standing
    )


def _of_set(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["set_id"], ["review_set.id"], name=op.f(f"fk_{table}_set_id_review_set"), ondelete="CASCADE"
    )
