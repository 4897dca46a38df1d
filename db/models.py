"""The rows. Times are aware and UTC; paths are relative to a folder named beside them; bytes on disk, numbers here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, MetaData, String, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from db.columns import BigId, Json, PlainText, UtcTime


def utc_now() -> datetime:
    return datetime.now(UTC)


class Row(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def _of_run() -> Mapped[str]:
    return mapped_column(String(36), ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)


class Run(Row):
    """One training run. worker: who holds the lease; attempt: counts claims, and fences off writes of older ones.

    stop_into is the state that a requested stop leads to; heartbeat_at is the time of the newest fact from the trainer;
    ingest_offset is how far its events.jsonl has been read, in bytes; step is the number of steps done.
    """

    __tablename__ = "run"
    __table_args__ = (Index("ix_run_state_lease_until", "state", "lease_until"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(PlainText)
    preset: Mapped[str | None] = mapped_column(PlainText)
    config: Mapped[dict[str, Any]] = mapped_column(Json)
    owner: Mapped[str] = mapped_column(PlainText)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=utc_now)
    started_at: Mapped[datetime | None] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)

    state: Mapped[str] = mapped_column(String(16), default="queued")
    state_since: Mapped[datetime] = mapped_column(UtcTime, default=utc_now)
    state_by: Mapped[str] = mapped_column(PlainText)
    state_why: Mapped[str] = mapped_column(PlainText, default="")

    attempt: Mapped[int] = mapped_column(default=0)
    worker: Mapped[str | None] = mapped_column(PlainText)
    lease_until: Mapped[datetime | None] = mapped_column(UtcTime)
    stop_requested_at: Mapped[datetime | None] = mapped_column(UtcTime)
    stop_into: Mapped[str] = mapped_column(String(16), default="stopped")

    step: Mapped[int] = mapped_column(default=0)
    total_steps: Mapped[int] = mapped_column(default=0)
    phase: Mapped[str] = mapped_column(PlainText, default="")
    phase_done: Mapped[int] = mapped_column(default=0)
    phase_total: Mapped[int] = mapped_column(default=0)
    last_reward: Mapped[float | None]
    seconds_per_step: Mapped[float | None]
    forwards_per_prompt: Mapped[int | None]
    facts: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    heartbeat_at: Mapped[datetime | None] = mapped_column(UtcTime)
    log_tail: Mapped[str] = mapped_column(PlainText, default="")
    ingest_offset: Mapped[int] = mapped_column(BigInteger, default=0)


class StepMetrics(Row):
    """All metrics of one training step; null where a value was not finite."""

    __tablename__ = "step_metrics"

    run_id: Mapped[str] = _of_run()
    step: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime] = mapped_column(UtcTime)
    metrics: Mapped[dict[str, float | None]] = mapped_column(Json)


class Tree(Row):
    """One drawn tree; data is its JSON, deflated."""

    __tablename__ = "tree"

    run_id: Mapped[str] = _of_run()
    step: Mapped[int] = mapped_column(primary_key=True)
    prompt_index: Mapped[int] = mapped_column(primary_key=True)
    prompt: Mapped[str] = mapped_column(PlainText)
    complete: Mapped[bool]
    data: Mapped[bytes] = mapped_column(LargeBinary)


class TreeDepthStat(Row):
    """Advantages of the edges into one level of one tree, and values of its nodes. std: population."""

    __tablename__ = "tree_depth_stat"

    run_id: Mapped[str] = _of_run()
    step: Mapped[int] = mapped_column(primary_key=True)
    prompt_index: Mapped[int] = mapped_column(primary_key=True)
    depth: Mapped[int] = mapped_column(primary_key=True)
    count: Mapped[int]
    advantage_mean: Mapped[float]
    advantage_std: Mapped[float]
    advantage_min: Mapped[float]
    advantage_max: Mapped[float]
    value_mean: Mapped[float]
    value_std: Mapped[float]


class Artifact(Row):
    """A media file, named by its content. path is relative to ESPALIER_DATA; poster: sha256 of a video's still."""

    __tablename__ = "artifact"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    mime: Mapped[str] = mapped_column(String(64))
    width: Mapped[int]
    height: Mapped[int]
    bytes: Mapped[int] = mapped_column(BigInteger)
    path: Mapped[str] = mapped_column(PlainText)
    poster: Mapped[str | None] = mapped_column(String(64))


class Sample(Row):
    """One generated item of a named collection ("fixed", "test") at one step."""

    __tablename__ = "sample"

    run_id: Mapped[str] = _of_run()
    collection: Mapped[str] = mapped_column(String(32), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    prompt_index: Mapped[int] = mapped_column(primary_key=True)
    seed: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    prompt: Mapped[str] = mapped_column(PlainText)
    task: Mapped[str | None] = mapped_column(PlainText)
    sha256: Mapped[str] = mapped_column(String(64), ForeignKey("artifact.sha256"))
    scores: Mapped[dict[str, float | None]] = mapped_column(Json)


class Evaluation(Row):
    """A held-out evaluation of the weights at one step; 0 is the base model."""

    __tablename__ = "evaluation"

    run_id: Mapped[str] = _of_run()
    step: Mapped[int] = mapped_column(primary_key=True)
    report: Mapped[dict[str, Any]] = mapped_column(Json)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class Checkpoint(Row):
    """path is relative to the run's folder."""

    __tablename__ = "checkpoint"

    run_id: Mapped[str] = _of_run()
    step: Mapped[int] = mapped_column(primary_key=True)
    path: Mapped[str] = mapped_column(PlainText)
    bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class StreamRow(Row):
    """A small notice for live pages; ids grow in the order of commits."""

    __tablename__ = "stream"
    __table_args__ = (Index("ix_stream_run_id_id", "run_id", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    run_id: Mapped[str] = mapped_column(String(36), ForeignKey("run.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(16))
    data: Mapped[dict[str, Any]] = mapped_column(Json)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=utc_now, index=True)


class Worker(Row):
    """A worker process and when it was last seen alive. processes: the most that one of its runs may have."""

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    pid: Mapped[int]
    slots: Mapped[int]
    processes: Mapped[int] = mapped_column(server_default="1")
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    seen_at: Mapped[datetime] = mapped_column(UtcTime, index=True)


def _of_set(primary_key: bool = False) -> Mapped[str]:
    return mapped_column(String(36), ForeignKey("review_set.id", ondelete="CASCADE"), primary_key=primary_key)


class ReviewSet(Row):
    """Pairs to judge. settings: aspects beyond overall, repeats, active, quota, source; seed: of the draw of the pairs.

    A closed set takes no votes.
    """

    __tablename__ = "review_set"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(PlainText)
    owner: Mapped[str] = mapped_column(PlainText)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=utc_now)
    settings: Mapped[dict[str, Any]] = mapped_column(Json)
    seed: Mapped[int] = mapped_column(BigInteger)
    closed_at: Mapped[datetime | None] = mapped_column(UtcTime)


class ReviewModel(Row):
    """A model that a set compares. run_id and step say where its samples came from; no run has to be there still."""

    __tablename__ = "review_model"

    set_id: Mapped[str] = _of_set(primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    label: Mapped[str] = mapped_column(PlainText)
    run_id: Mapped[str | None] = mapped_column(String(36))
    step: Mapped[int | None]


class ReviewPair(Row):
    """Two samples of one prompt: of two models on one noise seed, or of one model on two, when seed_b is that of B.

    sha_a, sha_b: of stored media, or what an imported file called its pictures.

    repeat_of names the pair that this one shows again, flipped with the sides exchanged. Pairs are handed out by
    `handed`, how often that was done, then by `place`.
    """

    __tablename__ = "review_pair"
    __table_args__ = (
        UniqueConstraint("set_id", "ordinal"),
        Index("ix_review_pair_set_id_handed_place", "set_id", "handed", "place"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    set_id: Mapped[str] = _of_set()
    ordinal: Mapped[int]
    prompt_index: Mapped[int]
    prompt: Mapped[str] = mapped_column(PlainText)
    task: Mapped[str | None] = mapped_column(PlainText)
    seed: Mapped[int] = mapped_column(BigInteger)
    seed_b: Mapped[int | None] = mapped_column(BigInteger)
    model_a: Mapped[str] = mapped_column(String(255))
    model_b: Mapped[str] = mapped_column(String(255))
    sha_a: Mapped[str] = mapped_column(PlainText)
    sha_b: Mapped[str] = mapped_column(PlainText)
    kind: Mapped[str] = mapped_column(String(8))
    scores_a: Mapped[dict[str, float | None]] = mapped_column(Json)
    scores_b: Mapped[dict[str, float | None]] = mapped_column(Json)
    repeat_of: Mapped[int | None] = mapped_column(BigId, ForeignKey("review_pair.id", ondelete="CASCADE"))
    flipped: Mapped[bool] = mapped_column(default=False)
    handed: Mapped[int] = mapped_column(default=0)
    place: Mapped[int]


class Reviewer(Row):
    """A person who judges a set by a secret link. quota: pairs to judge; None means all."""

    __tablename__ = "reviewer"
    __table_args__ = (UniqueConstraint("set_id", "pseudonym"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    set_id: Mapped[str] = _of_set()
    token: Mapped[str] = mapped_column(String(64), unique=True)
    pseudonym: Mapped[str] = mapped_column(String(255))
    quota: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=utc_now)


class Showing(Row):
    """One pair before one reviewer; its id is random and says nothing. ordinal: its place among the reviewer's."""

    __tablename__ = "showing"
    __table_args__ = (UniqueConstraint("reviewer_id", "ordinal"), UniqueConstraint("pair_id", "reviewer_id"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    pair_id: Mapped[int] = mapped_column(BigId, ForeignKey("review_pair.id", ondelete="CASCADE"))
    reviewer_id: Mapped[str] = mapped_column(String(36), ForeignKey("reviewer.id", ondelete="CASCADE"))
    ordinal: Mapped[int]
    a_is_left: Mapped[bool]
    shown_at: Mapped[datetime] = mapped_column(UtcTime, default=utc_now)


class Vote(Row):
    """An answer to a showing, of which at most one stands: left, right, tie, both_bad or skip, and so for each aspect.

    client_key is drawn by the page, so that a request that is sent again is known.
    """

    __tablename__ = "vote"
    __table_args__ = (
        Index(
            "ix_vote_standing",
            "showing_id",
            unique=True,
            sqlite_where=text("undone_at IS NULL"),
            postgresql_where=text("undone_at IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    showing_id: Mapped[str] = mapped_column(String(32), ForeignKey("showing.id", ondelete="CASCADE"), index=True)
    choice: Mapped[str] = mapped_column(String(8))
    aspects: Mapped[dict[str, str]] = mapped_column(Json)
    milliseconds: Mapped[int]
    client_key: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime, default=utc_now)
    undone_at: Mapped[datetime | None] = mapped_column(UtcTime)
