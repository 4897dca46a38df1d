"""Runs, and what they leave behind."""

import sqlalchemy as sa
from alembic import op

from db.columns import BigId, Json, PlainText, UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_artifact()
    _create_run()
    _create_worker()
    _create_checkpoint()
    _create_evaluation()
    _create_sample()
    _create_step_metrics()
    _create_stream()
    _create_tree()
    _create_tree_depth_stat()


def downgrade() -> None:
    for table in (
        "tree_depth_stat",
        "tree",
        "stream",
        "step_metrics",
        "sample",
        "evaluation",
        "checkpoint",
        "worker",
        "run",
        "artifact",
    ):
        op.drop_table(table)


def _create_artifact() -> None:
    op.create_table(
        "artifact",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("mime", sa.String(length=64), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("path", PlainText(), nullable=False),
        sa.Column("poster", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_artifact")),
    )


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", PlainText(), nullable=False),
        sa.Column("preset", PlainText(), nullable=True),
        sa.Column("config", Json(), nullable=False),
        sa.Column("owner", PlainText(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=True),
        sa.Column("ended_at", UtcTime(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("state_since", UtcTime(), nullable=False),
        sa.Column("state_by", PlainText(), nullable=False),
        sa.Column("state_why", PlainText(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker", PlainText(), nullable=True),
        sa.Column("lease_until", UtcTime(), nullable=True),
        sa.Column("stop_requested_at", UtcTime(), nullable=True),
        sa.Column("stop_into", sa.String(length=16), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("total_steps", sa.Integer(), nullable=False),
        sa.Column("phase", PlainText(), nullable=False),
        sa.Column("phase_done", sa.Integer(), nullable=False),
        sa.Column("phase_total", sa.Integer(), nullable=False),
        sa.Column("last_reward", sa.Double(), nullable=True),
        sa.Column("seconds_per_step", sa.Double(), nullable=True),
        sa.Column("forwards_per_prompt", sa.Integer(), nullable=True),
        sa.Column("facts", Json(), nullable=False),
        sa.Column("heartbeat_at", UtcTime(), nullable=True),
        sa.Column("log_tail", PlainText(), nullable=False),
        sa.Column("ingest_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_index("ix_run_state_lease_until", "run", ["state", "lease_until"], unique=False)


def _create_worker() -> None:
    op.create_table(
        "worker",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_worker")),
    )
    op.create_index(op.f("ix_worker_seen_at"), "worker", ["seen_at"], unique=False)


def _create_checkpoint() -> None:
    op.create_table(
        "checkpoint",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("path", PlainText(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_checkpoint_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", name=op.f("pk_checkpoint")),
    )


def _create_evaluation() -> None:
    op.create_table(
        "evaluation",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("report", Json(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_evaluation_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", name=op.f("pk_evaluation")),
    )


def _create_sample() -> None:
    op.create_table(
        "sample",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("collection", sa.String(length=32), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("prompt_index", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("prompt", PlainText(), nullable=False),
        sa.Column("task", PlainText(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scores", Json(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_sample_run_id_run"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["sha256"], ["artifact.sha256"], name=op.f("fk_sample_sha256_artifact")),
        sa.PrimaryKeyConstraint("run_id", "collection", "step", "prompt_index", "seed", name=op.f("pk_sample")),
    )


def _create_step_metrics() -> None:
    op.create_table(
        "step_metrics",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("time", UtcTime(), nullable=False),
        sa.Column("metrics", Json(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_step_metrics_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", name=op.f("pk_step_metrics")),
    )


def _create_stream() -> None:
    op.create_table(
        "stream",
        sa.Column("id", BigId, autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("data", Json(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_stream_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stream")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_stream_created_at"), "stream", ["created_at"], unique=False)
    op.create_index("ix_stream_run_id_id", "stream", ["run_id", "id"], unique=False)


def _create_tree() -> None:
    op.create_table(
        "tree",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("prompt_index", sa.Integer(), nullable=False),
        sa.Column("prompt", PlainText(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_tree_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", "prompt_index", name=op.f("pk_tree")),
    )


def _create_tree_depth_stat() -> None:
    op.create_table(
        "tree_depth_stat",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("prompt_index", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("advantage_mean", sa.Double(), nullable=False),
        sa.Column("advantage_std", sa.Double(), nullable=False),
        sa.Column("advantage_min", sa.Double(), nullable=False),
        sa.Column("advantage_max", sa.Double(), nullable=False),
        sa.Column("value_mean", sa.Double(), nullable=False),
        sa.Column("value_std", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_tree_depth_stat_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", "prompt_index", "depth", name=op.f("pk_tree_depth_stat")),
    )
