"""A reviewer's desk over HTTP: what is before them, their votes, and media that do not tell which model made them.

Whoever holds the token is the reviewer. No answer names a model, run, step or hash, and a showing's id is random.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, HTTPException, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from db import artifacts, showings, votes
from db.session import reading
from db.settings import settings
from frontend_components.byte_range import ranged
from frontend_components.judging.blind import blind
from frontend_components.judging.review_order import reorder_when_due

router = APIRouter()
V1 = "/api/v1"
DAY = 86_400_000

Choice = Literal["left", "right", "tie", "both_bad", "skip"]
ShowingId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Token = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{10,64}$")]


class ShowingOut(BaseModel):
    """A pair: left and right are addresses of media, relative to this server's root."""

    id: str
    prompt: str
    kind: Literal["image", "video"]
    left: str
    right: str


class DeskOut(BaseModel):
    """What is before a reviewer.

    set: its id, as its name may tell the models; done, total: pairs of this reviewer; current: null at the end.
    """

    set: str
    pseudonym: str
    aspects: list[str]
    done: int
    total: int
    can_undo: bool
    closed: bool
    current: ShowingOut | None
    next: ShowingOut | None


class VoteIn(BaseModel):
    """client_key: random, drawn once for each answer, so that an answer that is sent again counts once."""

    model_config = ConfigDict(extra="forbid")
    showing: ShowingId
    choice: Choice
    aspects: dict[str, Choice] = {}
    milliseconds: int = Field(0, ge=0, le=DAY)
    client_key: str = Field(min_length=8, max_length=64, pattern="^[!-~]+$")


class UndoIn(BaseModel):
    """showing: of the current pair as the page has it; nothing is undone where the desk is further. Empty: no check."""

    model_config = ConfigDict(extra="forbid")
    showing: ShowingId | None = None


@router.get(V1 + "/review/{token}")
def desk(token: Token) -> DeskOut:
    """The pair to judge and the next one, to load it early."""
    with showings.taking_turns() as session:
        return _desk(session, _sit(session, token))


@router.post(V1 + "/review/{token}/votes", responses={409: {"model": DeskOut}})
def vote(token: Token, body: VoteIn, later: BackgroundTasks) -> Response:
    """The desk after this vote. 409, with the desk as it is, when another answer stands or the set is closed."""
    with showings.taking_turns() as session:
        seat = _sit(session, token)
        unknown = body.aspects.keys() - set(seat.set.settings.get("aspects", []))
        if unknown:
            raise HTTPException(422, f"aspects: {sorted(unknown)[0][:80]!r} is not asked in this set; leave it out")
        answer = votes.Answer(body.choice, dict(body.aspects), body.milliseconds, body.client_key)
        try:
            counted = votes.cast(session, seat, body.showing, answer)
        except LookupError as missing:
            raise HTTPException(404, str(missing)) from missing
        shown = _desk(session, seat)
    if seat.set.settings.get("active"):
        later.add_task(reorder_when_due, seat.set.id)
    return JSONResponse(shown.model_dump(), 200 if counted else 409, background=later)


@router.post(V1 + "/review/{token}/undo")
def undo(token: Token, body: UndoIn | None = None) -> DeskOut:
    """Takes back the last vote; its pair is the current one again. Without a vote to take back, nothing happens."""
    with showings.taking_turns() as session:
        seat = _sit(session, token)
        before = _desk(session, seat)
        current = before.current.id if before.current else None
        if body is not None and body.showing not in (None, current):
            return before
        votes.undo(session, seat)
        return _desk(session, seat)


@router.get("/review-media/{showing}/{side}")
def review_media(
    showing: Annotated[str, Path(pattern="^[0-9a-f]{32}$")], side: Literal["left", "right"], request: Request
) -> Response:
    """One side of a showing. Both sides have the same headers and the same length; ranges are honoured."""
    with reading() as session:
        try:
            shown, pair = showings.get(session, showing)
            hashes = (pair.sha_a, pair.sha_b) if shown.a_is_left else (pair.sha_b, pair.sha_a)
            left, right = (settings().data / artifacts.get(session, one).path for one in hashes)
        except LookupError as missing:
            raise HTTPException(404, "there is no such picture") from missing
        kind = pair.kind
    try:
        sides = blind(kind, left, right)
    except (OSError, ValueError) as broken:
        raise HTTPException(404, "the file of this picture is gone or broken") from broken
    data = sides[0] if side == "left" else sides[1]
    return ranged(data, "video/mp4" if kind == "video" else "image/png", request.headers.get("range"))


def _sit(session: Session, token: str) -> showings.Seat:
    try:
        return showings.sit(session, token)
    except LookupError as missing:
        raise HTTPException(404, str(missing)) from missing


def _desk(session: Session, seat: showings.Seat) -> DeskOut:
    found = showings.desk(session, seat)
    return DeskOut(
        set=seat.set.id,
        pseudonym=seat.reviewer.pseudonym,
        aspects=seat.set.settings.get("aspects", []),
        done=found.done,
        total=seat.total,
        can_undo=found.done > 0 and seat.set.closed_at is None,
        closed=seat.set.closed_at is not None,
        current=_showing(found.current),
        next=_showing(found.next),
    )


def _showing(shown: showings.Shown | None) -> ShowingOut | None:
    if shown is None:
        return None
    left, right = (f"/review-media/{shown.id}/{side}" for side in ("left", "right"))
    return ShowingOut.model_validate(
        {"id": shown.id, "prompt": shown.prompt, "kind": shown.kind, "left": left, "right": right}
    )
