"""`espalier serve`: database, broker, worker and page, started in this order and ended together."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FrameType

from db.settings import settings
from frontend_components.guard import LOOPBACK


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Prints what is being done, and how long it took."""
    print(f"  {name:<10}", end="", flush=True)
    start = time.monotonic()
    yield
    print(f"ready  {time.monotonic() - start:5.1f} s", flush=True)


def leave(signum: int, frame: FrameType | None) -> None:
    """Ends the program from the inside, so that everything it started is ended too."""
    sys.exit(0)


def listen(host: str, port: int) -> socket.socket:
    """Taken before anything is started. OSError when the address cannot be had."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def serve(host: str, listening: socket.socket, with_worker: bool) -> None:
    """Blocks until Ctrl+C or SIGTERM. Without CELERY_BROKER_URL it runs a broker and a worker of its own."""
    port = listening.getsockname()[1]
    import uvicorn

    from db.session import migrate

    with ExitStack() as stack:
        with stage("database"):
            migrate()
        if settings().broker_url is None:
            from workers import broker, local

            with stage("broker"):
                url = stack.enter_context(broker.embedded(settings().data))
            if with_worker:
                with stage("worker"):
                    stack.enter_context(local.worker_process(url))
        with stage("pages"):
            os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
            from frontend_components.site import site

            app = site(host, port, settings().public_url, settings().password)
        print(f"\n  Espalier is at {settings().public_url or f'http://{host}:{port}/'}   (Ctrl+C ends it)", flush=True)
        # The first form needs the methods, and they need torch: seconds that are spent while nobody waits yet.
        threading.Thread(target=import_module, args=("backend.plan",), daemon=True).start()
        # Event streams never end by themselves, so leaving must not wait for them.
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="espalier serve", description=__doc__)
    try:
        found = settings()
    except ValueError as error:
        print(f"espalier serve: {error}", file=sys.stderr)
        return 2
    parser.add_argument("--host", default=found.host, help="address to bind (default: %(default)s)")
    parser.add_argument("--port", type=int, default=found.port, help="port to bind (default: %(default)s)")
    parser.add_argument("--no-worker", action="store_true", help="serve pages only; runs wait for `espalier worker`")
    given = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, leave)
    try:
        listening = listen(given.host, given.port)
    except OSError as error:
        told = f"{error.strerror}; choose another address with --host and --port"
        print(f"espalier serve: cannot listen on {given.host}:{given.port}: {told}", file=sys.stderr)
        return 1
    print("\n  Espalier", flush=True)
    if given.host not in LOOPBACK and found.password is None:
        told = "set ESPALIER_PASSWORD, or put a proxy before it that asks who"
        print(f"  Anyone who reaches this address can start runs: {told}.", flush=True)
    try:
        serve(given.host, listening, with_worker=not given.no_worker)
    except KeyboardInterrupt:
        print("\n  ended", flush=True)
    return 0
