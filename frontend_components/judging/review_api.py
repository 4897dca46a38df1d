"""Review sets over HTTP: make one, invite reviewers, follow it, read its leaderboard, carry its votes in and out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Form, HTTPException, Query, Request, Response, UploadFile
from pydantic import BaseModel, ConfigDict, Field, model_validator

from backend.preferences import exchange
from backend.preferences.standing_record import Standing
from db import reviews
from db.models import Reviewer
from db.session import reading, writing
from db.settings import settings
from frontend_components.api import PERSON, FromRow, Launched, found
from frontend_components.judging import review_archive
from frontend_components.judging.review_judgements import standing_of
from frontend_components.judging.review_sources import Seeds, Source, draw

router = APIRouter(prefix="/api/v1")

Aspect = Literal["overall", "alignment", "quality", "motion"]
Quota = Annotated[int | None, Field(ge=1, le=100_000, description="Pairs a reviewer judges at most; empty: all")]


class ReviewSetIn(BaseModel):
    """repeats: 0, or the share from 0.05 to 0.1 of pairs shown twice; active: pairs that tell most go first."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=200)
    source: Source
    aspects: list[Aspect] = ["overall"]
    repeats: float = Field(0.05, ge=0, le=0.1)
    active: bool = False
    quota: Quota = None
    seed: int = Field(0, ge=0, lt=2**31, description="Decides which pairs come in which order")

    @model_validator(mode="after")
    def _some_pairs_tell_more(self) -> Self:
        if self.active and isinstance(self.source, Seeds):
            raise ValueError("active: pairs of one model tell nothing of ratings; leave it off")
        return self


class ReviewSetLine(BaseModel):
    id: str
    name: str
    created_at: datetime
    closed_at: datetime | None
    pairs: int
    votes: int
    reviewers: int


class ReviewModelOut(FromRow):
    key: str
    label: str
    run_id: str | None
    step: int | None


class ReviewerOut(BaseModel):
    """url: the secret link."""

    id: str
    pseudonym: str
    token: str
    url: str
    done: int
    quota: int | None


class Progress(BaseModel):
    votes: int
    pairs: int


class ReviewSetOut(BaseModel):
    id: str
    name: str
    created_at: datetime
    closed_at: datetime | None
    settings: dict[str, Any]
    seed: int
    models: list[ReviewModelOut]
    reviewers: list[ReviewerOut]
    progress: Progress


class ReviewerIn(BaseModel):
    """quota: empty for that of the set."""

    model_config = ConfigDict(extra="forbid")
    pseudonym: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")
    quota: Quota = None


class PairOut(FromRow):
    """A pair with what reviewers do not see. seed_b: of B's noise, where it is another one than A's."""

    id: int
    prompt: str
    task: str | None
    seed: int
    seed_b: int | None
    kind: str
    model_a: str
    model_b: str
    label_a: str = ""
    label_b: str = ""
    sha_a: str
    sha_b: str
    scores_a: dict[str, float | None]
    scores_b: dict[str, float | None]


@router.get("/review-sets")
def list_sets(limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> list[ReviewSetLine]:
    """Newest first. votes: those that stand."""
    with reading() as session:
        return [
            ReviewSetLine(
                id=row.id,
                name=row.name,
                created_at=row.created_at,
                closed_at=row.closed_at,
                pairs=counts.pairs,
                votes=counts.votes,
                reviewers=counts.reviewers,
            )
            for row, counts in reviews.listing(session, limit)
        ]


@router.post("/review-sets", status_code=201)
def create(body: ReviewSetIn) -> Launched:
    """Draws the pairs of a new set. 422 says what cannot be compared."""
    kept = body.model_dump(mode="json", include={"source", "repeats", "active", "quota"})
    aspects = ["overall", *(aspect for aspect in dict.fromkeys(body.aspects) if aspect != "overall")]
    with writing() as session:
        try:
            drawn = draw(session, body.source, body.repeats, body.seed)
        except (ValueError, LookupError) as refused:
            raise HTTPException(422, str(refused.args[0])) from refused
        made = reviews.create(
            session,
            name=body.name,
            owner=PERSON,
            settings=kept | {"aspects": aspects},
            seed=body.seed,
            models=drawn.models,
            pairs=drawn.pairs,
        )
    return Launched(id=made.id)


@router.get("/review-sets/{set_id}")
def one_set(set_id: str, request: Request) -> ReviewSetOut:
    with reading() as session:
        row = found(lambda: reviews.get(session, set_id))
        counts = reviews.counts(session, [set_id])[set_id]
        return ReviewSetOut(
            id=row.id,
            name=row.name,
            created_at=row.created_at,
            closed_at=row.closed_at,
            settings=row.settings,
            seed=row.seed,
            models=[ReviewModelOut.model_validate(model) for model in reviews.models(session, set_id)],
            reviewers=[_reviewer(one, done, request) for one, done in reviews.reviewers(session, set_id)],
            progress=Progress(votes=counts.votes, pairs=counts.pairs),
        )


@router.get("/review-sets/{set_id}/pairs/{pair_id}")
def one_pair(set_id: str, pair_id: int) -> PairOut:
    """A pair of the leaderboard, with its pictures, models and scores."""
    with reading() as session:
        row = found(lambda: reviews.pair(session, set_id, pair_id))
        labels = {model.key: model.label for model in reviews.models(session, set_id)}
        told = {"label_a": labels[row.model_a], "label_b": labels[row.model_b]}
        return PairOut.model_validate(row).model_copy(update=told)


@router.post("/review-sets/{set_id}/reviewers", status_code=201)
def invite(set_id: str, body: ReviewerIn, request: Request) -> ReviewerOut:
    """A reviewer with a link of their own. 409 when the set has this pseudonym."""
    with writing() as session:
        row = found(lambda: reviews.get(session, set_id))
        quota = body.quota if body.quota is not None else row.settings.get("quota")
        try:
            reviewer = reviews.invite(session, set_id, body.pseudonym.strip(), quota)
        except ValueError as taken:
            raise HTTPException(409, str(taken)) from taken
    return _reviewer(reviewer, 0, request)


@router.post("/review-sets/{set_id}/close")
def close(set_id: str, request: Request) -> ReviewSetOut:
    """No vote is taken until it is opened."""
    with writing() as session:
        found(lambda: reviews.close(session, set_id))
    return one_set(set_id, request)


@router.post("/review-sets/{set_id}/open")
def open_again(set_id: str, request: Request) -> ReviewSetOut:
    """Takes votes again. 409 for an imported set whose pictures are not here."""
    with writing() as session:
        found(lambda: reviews.open_again(session, set_id))
        if not reviews.has_media(session, set_id):
            raise HTTPException(409, "the pictures of this set are not on this machine; it can be read but not judged")
    return one_set(set_id, request)


@router.get("/review-sets/{set_id}/leaderboard")
def leaderboard(set_id: str, aspect: Aspect = "overall") -> Standing:
    """What the votes say, and how far they can be trusted."""
    with reading() as session:
        found(lambda: reviews.get(session, set_id))
        return standing_of(session, set_id, aspect)


@router.get("/review-sets/{set_id}/export")
def export(set_id: str, request: Request, format: str = exchange.NATIVE) -> Response:
    """The votes as a file: native, pickapic, hpd, videoalign, chosen_rejected or parquet."""
    with reading() as session:
        archive = found(lambda: review_archive.archive(session, set_id))
    try:
        mime, suffix = exchange.file_type(format)
        data = exchange.write(archive, format, _root(request) + "/media/")
    except ValueError as refused:
        raise HTTPException(422, str(refused)) from refused
    headers = {"Content-Disposition": f'attachment; filename="votes-{set_id}-{format}.{suffix}"'}
    return Response(data, media_type=mime, headers=headers)


@router.post("/review-sets/import", status_code=201)
def import_set(file: UploadFile, format: Annotated[str, Form()] = exchange.NATIVE) -> Launched:
    """A set from a file of votes. It is closed unless its pictures are on this machine."""
    try:
        archive = exchange.read(file.file.read(), format, file.filename or format, PERSON)
    except ValueError as refused:
        raise HTTPException(422, str(refused)) from refused
    with writing() as session:
        return Launched(id=review_archive.restore(session, archive))


def _reviewer(reviewer: Reviewer, done: int, request: Request) -> ReviewerOut:
    return ReviewerOut(
        id=reviewer.id,
        pseudonym=reviewer.pseudonym,
        token=reviewer.token,
        url=f"{_root(request)}/review?t={reviewer.token}",
        done=done,
        quota=reviewer.quota,
    )


def _root(request: Request) -> str:
    return settings().public_url or str(request.base_url).rstrip("/")
