"""The event stream behind live pages: one poller per process reads new rows and hands them to every open page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from db import runs, stream
from db.models import utc_now
from db.session import reading, writing

router = APIRouter()
POLL_SECONDS = 0.25
COMMENT_SECONDS = 15.0
REAP_SECONDS = 10.0
BATCH = 500
MAX_WAITING = 20
# Of these only the newest of a batch matters: each replaces the one before it.
REPLACED_BY = {"progress": (), "tree": ("step", "prompt_index"), "state": ()}


@dataclass(frozen=True)
class Change:
    """One row of the stream. id: its number, which a page sends back to go on where it was cut off."""

    id: int
    run_id: str
    kind: str
    data: dict[str, Any]


@dataclass(eq=False)
class Page:
    """An open page. run_id None: it follows every run."""

    run_id: str | None
    batches: asyncio.Queue[list[Change]] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))
    overflowed: bool = False


def read_after(cursor: int, run_id: str | None) -> list[Change]:
    with reading() as session:
        return [Change(row.id, row.run_id, row.kind, row.data) for row in stream.after(session, cursor, run_id, BATCH)]


def last_id() -> int:
    with reading() as session:
        return stream.last_id(session)


def reap() -> None:
    """Declares runs of vanished workers lost: a page must not call them running where no worker is left to sweep."""
    with writing() as session:
        runs.reap(session, utc_now())


def coalesce(changes: list[Change]) -> list[Change]:
    """Drops what a later change of the same batch replaces. The order and the last id stay."""
    latest: dict[tuple[Any, ...], int] = {}
    for change in changes:
        latest[identity(change)] = change.id
    return [change for change in changes if latest[identity(change)] == change.id]


def identity(change: Change) -> tuple[Any, ...]:
    if change.kind not in REPLACED_BY:
        return (change.id,)
    return (change.run_id, change.kind, *(change.data.get(name) for name in REPLACED_BY[change.kind]))


def message(change: Change) -> str:
    data = json.dumps({"run_id": change.run_id, **change.data}, separators=(",", ":"))
    return f"id: {change.id}\nevent: {change.kind}\ndata: {data}\n\n"


class Hub:
    """Polls while anyone listens. A page that cannot keep up is told to load itself afresh."""

    def __init__(self) -> None:
        self.pages: set[Page] = set()
        self.cursor = 0
        self.poller: asyncio.Task[None] | None = None
        self.starting = asyncio.Lock()

    async def join(self, run_id: str | None) -> Page:
        page = Page(run_id)
        async with self.starting:
            if self.poller is None or self.poller.done():
                self.cursor = await run_in_threadpool(last_id)
                self.poller = asyncio.create_task(self.poll())
            self.pages.add(page)
        return page

    def leave(self, page: Page) -> None:
        self.pages.discard(page)
        if not self.pages and self.poller is not None:
            self.poller.cancel()
            self.poller = None

    async def poll(self) -> None:
        reaped = 0.0
        while True:
            if time.monotonic() - reaped > REAP_SECONDS:
                reaped = time.monotonic()
                await run_in_threadpool(reap)
            changes = await run_in_threadpool(read_after, self.cursor, None)
            if changes:
                self.cursor = changes[-1].id
                for page in self.pages:
                    self.hand(page, changes)
            if len(changes) < BATCH:
                await asyncio.sleep(POLL_SECONDS)

    def hand(self, page: Page, changes: list[Change]) -> None:
        own = [change for change in changes if page.run_id in (None, change.run_id)]
        if not own or page.overflowed:
            return
        try:
            page.batches.put_nowait(coalesce(own))
        except asyncio.QueueFull:
            page.overflowed = True


async def follow(hub: Hub, run_id: str | None, after: int | None) -> AsyncIterator[str]:
    """Server-sent events: first what happened since `after`, then what happens. after None: only what happens."""
    page = await hub.join(run_id)
    try:
        cursor = hub.cursor if after is None else after
        yield f"retry: 1000\nid: {cursor}\nevent: hello\ndata: {{}}\n\n"
        while missed := await run_in_threadpool(read_after, cursor, run_id):
            cursor = missed[-1].id
            for change in coalesce(missed):
                yield message(change)
        while True:
            try:
                batch = await asyncio.wait_for(page.batches.get(), COMMENT_SECONDS)
            except TimeoutError:
                if hub.poller is None or hub.poller.done():
                    return  # reading failed: the page connects again from its last id, which starts a fresh poller
                yield ": still here\n\n"
                continue
            for change in batch:
                if change.id > cursor:
                    cursor = change.id
                    yield message(change)
            if page.overflowed and page.batches.empty():
                page.overflowed = False
                yield f"id: {hub.cursor}\nevent: resync\ndata: {{}}\n\n"
    finally:
        hub.leave(page)


@router.get("/events")
async def events(request: Request, run: str | None = None, after: int | None = None) -> StreamingResponse:
    """Changes of one run (or of all). `Last-Event-ID`, which browsers send by themselves, resumes without a gap."""
    resumed = request.headers.get("last-event-id", "")
    cursor = int(resumed) if resumed.isdigit() else after
    return StreamingResponse(
        follow(request.app.state.hub, run, cursor),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
