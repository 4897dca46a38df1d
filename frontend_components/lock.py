"""A password for the lab, where ESPALIER_PASSWORD is set: all but the review desk asks for it.

Reviewers' links are secrets of their own, so the desk stays open: its page, its pictures and its votes. Who gives the
password gets a cookie, signed with a key that is derived from the password; programs send it with each request.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from asyncio import sleep
from html import escape
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "espalier-lab"
DAYS = 30
LONGEST_FORM = 4096  # bytes
WRONG_SECONDS = 1.0  # a wrong password is answered after that, so that guesses are slow
# The desk's page, votes, pictures and scripts, and what Gradio's page loads before it: constant text and its own files.
OPEN_PAGES = frozenset({"/review", "/review/", "/theme.css", "/favicon.ico"})
OPEN_FOLDERS = ("/api/v1/review/", "/review-media/", "/ui/", "/assets/", "/static/")
FORM = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Espalier</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body {{ font: 15px/1.5 system-ui, sans-serif; display: grid; place-content: center; min-height: 90vh }}
form {{ display: grid; gap: 12px; width: 280px }} input, button {{ font: inherit; padding: 8px 10px }}
p {{ margin: 0 }}</style></head><body><form method="post"><h1>Espalier</h1><p role="alert">{told}</p>
<label>Password of this lab <input name="password" type="password" autocomplete="current-password" required autofocus>
</label><button>Enter</button></form></body></html>"""


class Lock:
    """password: of the lab. secure: whether people reach it by https, so that the cookie is not sent otherwise."""

    def __init__(self, app: ASGIApp, password: str, secure: bool) -> None:
        self.app = app
        self.password = password.encode()
        self.secure = secure
        self.key = hashlib.scrypt(self.password, salt=b"espalier lab", n=2**14, r=8, p=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or is_open(scope["path"]) or self.admits(Headers(scope=scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await pause_after_guess(scope)
            await send({"type": "websocket.close", "code": 1008})
        else:
            await (await self.ask(scope, receive))(scope, receive, send)

    def admits(self, headers: Headers) -> bool:
        """Whether a request carries the password, or a cookie that was given for it."""
        given = sent_with(headers)
        if given is not None and self.is_password(given):
            return True
        until, _, signature = cookie_parser(headers.get("cookie", "")).get(COOKIE, "").partition(".")
        known = hmac.compare_digest(signature.encode(), self.sign(until).encode())
        return known and until.isdigit() and time.time() < int(until)

    def is_password(self, given: bytes) -> bool:
        """Compared by digests, so that neither content nor length shows in the time that it takes."""
        return hmac.compare_digest(hashlib.sha256(given).digest(), hashlib.sha256(self.password).digest())

    def sign(self, until: str) -> str:
        return hmac.new(self.key, until.encode(), hashlib.sha256).hexdigest()

    async def ask(self, scope: Scope, receive: Receive) -> Response:
        """The form, or what follows its answer: the page that was asked for, with a cookie."""
        headers = Headers(scope=scope)
        sent_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        if scope["method"] == "POST" and sent_form:
            if not self.is_password((await password_in(receive)).encode()):
                await sleep(WRONG_SECONDS)
                return page("That is not the password.")
            # A reference without a path stays at this address, whatever a proxy calls it.
            answer = RedirectResponse(f"?{scope['query_string'].decode('latin-1')}", status_code=303)
            until = str(int(time.time()) + DAYS * 86400)
            answer.set_cookie(
                COOKIE,
                f"{until}.{self.sign(until)}",
                max_age=DAYS * 86400,
                httponly=True,
                samesite="lax",
                secure=self.secure,
            )
            return answer
        await pause_after_guess(scope)
        if "text/html" in headers.get("accept", ""):
            return page("")
        told = "this lab has a password; open one of its pages, or send it as Authorization: Bearer PASSWORD"
        return JSONResponse({"detail": told}, 401, {"WWW-Authenticate": "Bearer"})


def sent_with(headers: Headers) -> bytes | None:
    """The password of a program, in the bytes that it sent (Starlette reads them as Latin-1); None without one."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    return given.strip(" \t").encode("latin-1") if kind.lower() == "bearer" else None


async def pause_after_guess(scope: Scope) -> None:
    if sent_with(Headers(scope=scope)) is not None:
        await sleep(WRONG_SECONDS)


def is_open(path: str) -> bool:
    """Whether reviewers need it. A path that climbs is none of theirs."""
    return path in OPEN_PAGES or (path.startswith(OPEN_FOLDERS) and ".." not in path)


def page(told: str) -> Response:
    return HTMLResponse(FORM.format(told=escape(told)), 401, {"Cache-Control": "no-store"})


async def password_in(receive: Receive) -> str:
    """The password of a form; empty where there is none, or the form is longer than any."""
    body = b""
    while len(body) <= LONGEST_FORM:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return parse_qs(body.decode("latin-1"), encoding="utf-8").get("password", [""])[0]
    return ""
