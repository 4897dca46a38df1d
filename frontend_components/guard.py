"""What every request must pass: a host we answer to, an origin of our own, and headers that keep the page closed."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Gradio compiles its templates at run time, which needs unsafe-eval; everything is served from this origin.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:; connect-src 'self'; "
    "worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)


class Guard:
    """host: the address the server binds. public_url: where people reach it through a proxy, if anywhere.

    A server on loopback answers only to loopback names (and the public one), so that no other site can point its own
    name at it; an unsafe request must come from a page of this server.
    """

    def __init__(self, app: ASGIApp, host: str, public_url: str | None) -> None:
        self.app = app
        self.public = urlsplit(public_url).netloc if public_url else ""
        names = LOOPBACK | {host} | ({urlsplit(public_url).hostname or ""} if public_url else set())
        self.names = frozenset(names) if host in LOOPBACK else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self.refusal(scope["method"], Headers(scope=scope))
        if refusal:
            await PlainTextResponse(refusal, status_code=403)(scope, receive, send)
            return

        async def closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
            await send(message)

        await self.app(scope, receive, closed)

    def refusal(self, method: str, headers: Headers) -> str | None:
        """Why a request is refused, or None."""
        host = headers.get("host", "")
        if self.names is not None and urlsplit(f"//{host}").hostname not in self.names:
            return f"host {host!r} is not this server; set PUBLIC_URL to the address people use"
        origin = headers.get("origin")
        if method in UNSAFE and origin is not None and urlsplit(origin).netloc not in {host, self.public} - {""}:
            return f"origin {origin!r} is not this server; set PUBLIC_URL to the address people use"
        return None
