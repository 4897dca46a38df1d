"""`espalier bench votes`: how long a vote takes when several people judge at once, against a server of its own.

The server is `espalier serve` on loopback with a database of its own: SQLite, or an empty one that is named. Each
reviewer is a thread with one connection that loads both pictures of a pair, thinks, and votes; the round trip of the
vote is what is measured. In the end the votes that were answered are compared with those that are stored.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from PIL import Image
from sqlalchemy import delete, inspect, literal, select, table
from sqlalchemy.exc import OperationalError

from db import artifacts, reviews, votes
from db.models import Artifact, ReviewSet
from db.session import alembic_config, engine, migrate, reading, writing
from db.settings import settings

START_SECONDS = 120
PIXELS = 256
OWNER = "bench"
CHOICES = ("left", "right", "tie", "both_bad")


@dataclass(frozen=True)
class Measured:
    """Milliseconds of a vote's round trip. database: sqlite or postgresql; answered and stored are to be equal."""

    database: str
    reviewers: int
    pairs: int
    think_seconds: float
    answered: int
    stored: int
    votes_per_second: float
    p50: float
    p95: float
    p99: float
    most: float


def measure(num_reviewers: int, num_votes: int, num_pairs: int, think: float) -> Measured:
    """num_votes of each reviewer, with about `think` seconds before each.

    Works in the environment's database, and takes out what it put there. ValueError where that holds anything.
    """
    _require_empty()
    migrate()
    try:
        return _measure(num_reviewers, num_votes, num_pairs, think)
    finally:
        _clear()


def _measure(num_reviewers: int, num_votes: int, num_pairs: int, think: float) -> Measured:
    set_id, tokens = _plant(num_reviewers, num_votes, num_pairs)
    with serving() as port, ThreadPoolExecutor(num_reviewers) as people:
        start = time.monotonic()
        jobs = [people.submit(judge, port, token, num_votes, think) for token in tokens]
        times = np.array([took for job in jobs for took in job.result()]) * 1000
        seconds = time.monotonic() - start
    with reading() as session:
        stored = len(votes.standing(session, set_id))
    p50, p95, p99 = (round(float(value), 1) for value in np.percentile(times, [50, 95, 99]))
    most = round(float(times.max()), 1)
    rate = round(len(times) / seconds, 1)
    kind = engine().dialect.name
    return Measured(kind, num_reviewers, num_pairs, think, len(times), stored, rate, p50, p95, p99, most)


def _require_empty() -> None:
    """Before anything is written: no rows, and no tables but those of the newest revision."""
    with reading() as session:
        connection = session.connection()
        names = sorted(set(inspect(connection).get_table_names()) - {"alembic_version"})
        held = [name for name in names if session.scalar(select(literal(1)).select_from(table(name)).limit(1))]
        revisions = MigrationContext.configure(connection).get_current_heads()
        newest = tuple(ScriptDirectory.from_config(alembic_config(connection)).get_heads())
    if held:
        raise ValueError(f"--database: it holds rows of {', '.join(held)}; make an empty one for the measurement")
    if (names or revisions) and revisions != newest:
        told = f"its tables are of revision {', '.join(revisions) or 'none'}, not {', '.join(newest)}"
        raise ValueError(f"--database: {told}; make an empty one for the measurement")


def _clear() -> None:
    """Pairs, reviewers and votes go with their set."""
    with writing() as session:
        session.execute(delete(ReviewSet).where(ReviewSet.owner == OWNER))
        session.execute(delete(Artifact).where(Artifact.path.startswith(f"{OWNER}/")))


def judge(port: int, token: str, num_votes: int, think: float) -> list[float]:
    """Seconds of each vote of one reviewer."""
    chance = random.Random(token)
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    desk = _json(connection, "GET", f"/api/v1/review/{token}")
    times = []
    for _ in range(num_votes):
        showing = desk["current"]
        for side in ("left", "right"):
            _bytes(connection, "GET", showing[side])
        time.sleep(chance.uniform(0.5, 1.5) * think)
        body = {
            "showing": showing["id"],
            "choice": chance.choice(CHOICES),
            "milliseconds": 1000,
            "client_key": chance.randbytes(16).hex(),
        }
        start = time.perf_counter()
        desk = _json(connection, "POST", f"/api/v1/review/{token}/votes", body)
        times.append(time.perf_counter() - start)
    connection.close()
    return times


@contextmanager
def serving() -> Iterator[int]:
    """`espalier serve` without a worker, in a process of its own and this environment; yields its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "app", "serve", "--host", "127.0.0.1", "--port", str(port), "--no-worker"]
    # No run is launched, so that no broker is needed.
    environment = os.environ | {"CELERY_BROKER_URL": "memory://", "ESPALIER_PASSWORD": ""}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[2])
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start; try `espalier serve` to see why")
            time.sleep(0.2)
        # The server imports torch in its first seconds; the form waits for that.
        _bytes(HTTPConnection("127.0.0.1", port, timeout=START_SECONDS), "GET", "/api/v1/form")
        yield port
    finally:
        server.terminate()
        server.wait(30)


def _answers(port: int) -> bool:
    try:
        return bool(_bytes(HTTPConnection("127.0.0.1", port, timeout=5), "GET", "/api/v1/review-sets"))
    except OSError:
        return False


def _json(connection: HTTPConnection, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_bytes(connection, method, path, body))
    return found


def _bytes(connection: HTTPConnection, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json"} if sent else {})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{method} {path.split('/')[1]}: status {answer.status}: {data[:200].decode()}")
    return data


def _plant(num_reviewers: int, num_votes: int, num_pairs: int) -> tuple[str, list[str]]:
    """A set of made-up pictures, and its reviewers' tokens."""
    chance = np.random.default_rng(0)
    stored = [_picture(chance) for _ in range(8)]
    pairs = [
        {
            "prompt_index": i,
            "prompt": f"prompt {i}",
            "task": None,
            "seed": i,
            "model_a": "base",
            "model_b": "other",
            "sha_a": stored[i % 8]["sha256"],
            "sha_b": stored[(i + 1) % 8]["sha256"],
            "kind": "image",
            "scores_a": {},
            "scores_b": {},
            "repeat_of": None,
            "flipped": False,
        }
        for i in range(num_pairs)
    ]
    models = [{"key": key, "label": key, "run_id": None, "step": None} for key in ("base", "other")]
    kept = {"aspects": ["overall"], "repeats": 0, "active": False, "quota": None, "source": None}
    with writing() as session:
        artifacts.put(session, stored)
        made = reviews.create(session, name=OWNER, owner=OWNER, settings=kept, seed=0, models=models, pairs=pairs)
        people = [reviews.invite(session, made.id, f"reviewer {i}", num_votes + 1) for i in range(num_reviewers)]
        return made.id, [one.token for one in people]


def _picture(chance: np.random.Generator) -> dict[str, Any]:
    smooth = chance.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(smooth).resize((PIXELS, PIXELS), Image.Resampling.BICUBIC).save(buffer, "PNG")
    data = buffer.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    path = settings().data / OWNER / f"{sha256}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    size = {"width": PIXELS, "height": PIXELS, "bytes": len(data)}
    return {"sha256": sha256, "mime": "image/png", "path": f"{OWNER}/{path.name}", "poster": None} | size


def words(found: Measured) -> str:
    return (
        f"{found.database}: {found.reviewers} reviewers, {found.answered} votes at {found.votes_per_second}/s, "
        f"{found.stored} stored\n"
        f"round trip of a vote: median {found.p50} ms, p95 {found.p95} ms, p99 {found.p99} ms, most {found.most} ms"
    )


def main(argv: list[str]) -> int:
    """`espalier bench`: "votes" is measured here, everything else by backend.benchmarks."""
    if argv[:1] != ["votes"]:
        from backend.benchmarks import command

        return command.main(argv)
    parser = argparse.ArgumentParser(prog="espalier bench votes", description="How long a vote takes for many at once.")
    parser.add_argument("--reviewers", type=int, default=20)
    parser.add_argument("--votes", type=int, default=20, help="of each reviewer (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=1000, help="in the set (default: %(default)s)")
    parser.add_argument(
        "--think", type=float, default=1.0, help="mean seconds before a vote; 0 = as fast as it goes (default: 1)"
    )
    parser.add_argument(
        "--database", metavar="URL", help="an empty one, such as postgresql://user@host/name (default: SQLite)"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv[1:])
    if not (1 <= options.reviewers <= 200 and 1 <= options.votes < options.pairs <= 100_000 and options.think >= 0):
        parser.error(
            "give 1 to 200 reviewers, fewer votes than pairs, at most 100000 pairs and a think time of 0 or more"
        )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ESPALIER_DATA"] = folder
        os.environ["DATABASE_URL"] = options.database or ""  # empty: SQLite in the folder
        try:
            found = measure(options.reviewers, options.votes, options.pairs, options.think)
            engine().dispose()
        except (ValueError, OperationalError) as refused:
            parser.error(str(refused))
    print(json.dumps(asdict(found), indent=1) if options.json else words(found))
    return 0
