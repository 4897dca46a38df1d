"""How much a request may send: longer bodies are refused before anything reads them as a whole."""

from __future__ import annotations

from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "/api/v1/"
MOST = 4 * 2**20
MOST_OF = {"/api/v1/review/": 16 * 2**10, "/api/v1/review-sets/import": 128 * 2**20}


class TooLong(Exception):
    """The body went past its limit while it was read."""


class BodyLimit:
    """Counts the bytes of bodies below /api/v1. 413 says the limit."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self.app(scope, receive, send)
            return
        most = next((limit for prefix, limit in MOST_OF.items() if scope["path"].startswith(prefix)), MOST)
        told = Headers(scope=scope).get("content-length", "")
        refusal = JSONResponse({"detail": f"body: longer than the {most} bytes this address takes"}, 413)
        if told.isdigit() and int(told) > most:
            await refusal(scope, receive, send)
            return
        read = 0
        started = False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise TooLong
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            if read <= most:  # else it is what the application makes of TooLong
                started = True
                await send(message)

        with suppress(TooLong):
            await self.app(scope, counted, watched)
        if read > most and not started:
            await refusal(scope, receive, send)
