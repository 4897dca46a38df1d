"""The whole loop, by HTTP as the pages do it: train, judge models and samples, train on the votes, judge again.

    python -m frontend_components.judging.loop --out DIR

The server is `espalier serve` with a worker and data of its own in DIR. Reviewers are simulated: they look at the blind
pictures, know what the prompt asks for, and err at a known rate. docs/votes.md tells what each step is by hand.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from backend.config import RunConfig, load, preset_path
from backend.shapes.reviewer import Reviewer

START_SECONDS, LEAVE_SECONDS, POLL_SECONDS = 120, 180, 1.0
RUN_SECONDS = 3600
OF_ANOTHER_SERVER = ("DATABASE_URL", "CELERY_BROKER_URL", "PUBLIC_URL", "ESPALIER_PASSWORD")
ENDED = ("done", "failed", "stopped", "lost")


@dataclass(frozen=True)
class Size:
    """How much of everything.

    steps: of the first run; shown: held-out prompts that are judged, seeds: samples of each; votes: at most so many on
    a comparison of models, while every two samples of a prompt are judged to train on.
    """

    steps: int = 80
    shown: int = 150
    seeds: int = 4
    votes: int = 450
    reviewers: int = 3
    error: float = 0.1
    method: str = "dpo"
    overrides: tuple[str, ...] = ()


class Site:
    """A server's JSON interface."""

    def __init__(self, root: str) -> None:
        self.root = root

    def bytes(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        """GET, or POST where there is a body. HTTPError, with the server's words, for any other status than 2xx."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            found: bytes = answer.read()
        return found

    def json(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return json.loads(self.bytes("/api/v1/" + path, body))

    def finished(self, run_id: str) -> dict[str, Any]:
        """Waits for a run. RuntimeError unless it ends as done."""
        deadline = time.monotonic() + RUN_SECONDS
        while (run := self.json(f"runs/{run_id}"))["state"] not in ENDED:
            if time.monotonic() > deadline:
                raise RuntimeError(f"run {run_id} did not end within {RUN_SECONDS} s")
            time.sleep(POLL_SECONDS)
        if run["state"] != "done":
            raise RuntimeError(f"run {run_id} ended as {run['state']}: {run['log_tail'] or run['state_why']}")
        found: dict[str, Any] = run
        return found

    def strict(self, run_id: str) -> list[tuple[int, float]]:
        """Held-out strict accuracy by step."""
        reports = self.json(f"runs/{run_id}/evaluations")
        return [(one["step"], one["report"]["strict_accuracy"]["overall"]["mean"]) for one in reports]


@contextmanager
def serving(data: Path) -> Iterator[Site]:
    """`espalier serve` with a worker, its database in `data`; what it prints goes to data/server.log."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "app", "serve", "--host", "127.0.0.1", "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_SERVER}
    with (data / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=environment | {"ESPALIER_DATA": str(data)},
            stdout=log,
            stderr=log,
            cwd=Path(__file__).parents[2],
        )
    site = Site(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(site):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start; see {data / 'server.log'}")
            time.sleep(POLL_SECONDS)
        yield site
    finally:
        server.terminate()
        server.wait(LEAVE_SECONDS)


def _answers(site: Site) -> bool:
    try:
        return site.json("runs") == []
    except OSError:
        return False


def review(
    site: Site, name: str, source: dict[str, Any], size: Size, seed: int, most: int | None = None
) -> tuple[str, dict[str, Any]]:
    """Makes a set, has its pairs (at most so many) judged once by one of the reviewers; its id and its leaderboard."""
    set_id = site.json("review-sets", {"name": name, "source": source, "repeats": 0.05, "seed": seed})["id"]
    pairs = site.json(f"review-sets/{set_id}")["progress"]["pairs"]
    quota = -(-min(pairs, most or pairs) // size.reviewers)
    rng = np.random.default_rng(seed)
    for number in range(size.reviewers):
        body = {"pseudonym": f"simulated {number + 1}", "quota": quota}
        judge(site, site.json(f"review-sets/{set_id}/reviewers", body)["token"], Reviewer(size.error), rng)
    return set_id, site.json(f"review-sets/{set_id}/leaderboard")


def judge(site: Site, token: str, reviewer: Reviewer, rng: np.random.Generator) -> None:
    """Everything that lies before one reviewer, as the page would send it."""
    desk = site.json(f"review/{token}")
    while (showing := desk["current"]) is not None:
        left, right = (_picture(site.bytes(showing[side])) for side in ("left", "right"))
        (choice,) = reviewer.choose(left, right, [showing["prompt"]], rng)
        body = {"showing": showing["id"], "choice": choice, "milliseconds": 1000, "client_key": secrets.token_hex(16)}
        desk = site.json(f"review/{token}/votes", body)


def _picture(data: bytes) -> NDArray[np.float32]:
    """[1, H, W, 3] in 0..1."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float32)[None] / np.float32(255)


def loop(data: Path, size: Size) -> list[str]:
    """All steps, in DIR; a line about each as it ends."""
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(f"{time.monotonic() - started:6.0f} s  {text}")
        print(told[-1], flush=True)

    started = time.monotonic()
    data.mkdir(parents=True, exist_ok=True)
    with serving(data) as site:
        tell("the server answers")
        config = _online(size)
        online = site.json("runs", {"config": config.model_dump(mode="json"), "preset": "shapes-branchgrpo"})["id"]
        site.finished(online)
        evaluated = site.strict(online)
        tell(f"1 trained online, strict accuracy {_path(evaluated)}")

        models = [{"run": online, "step": step} for step, _ in evaluated]
        _, board = review(site, "base and run", {"kind": "runs", "models": models}, size, 0, size.votes)
        tell(f"2 judged models, {_board(board)}")

        samples = {"kind": "seeds", "run": online, "step": 0}
        judged, board = review(site, "base, two noises", samples, size, 1)
        tell(f"3 judged samples of the base, {board['votes']} votes, of which {board['sides']['decided']} choose one")

        file = data / "votes.json"
        file.write_bytes(site.bytes(f"/api/v1/review-sets/{judged}/export?format=native"))
        tell(f"4 exported, {file}, {file.stat().st_size / 1000:.0f} kB")

        wish = {"method": size.method, "name": f"{size.method} on votes"}
        offline = site.json(f"review-sets/{judged}/train", wish)["id"]
        last = site.finished(offline)["total_steps"]
        tell(f"5 trained on the votes, strict accuracy on prompts not judged {_path(site.strict(offline))}")

        compared = {"kind": "comparison", "run": offline, "left": 0, "right": last}
        _, board = review(site, "base and run on votes", compared, size, 2, size.votes)
        tell(f"6 judged again, {_board(board)}")
    return told


def _online(size: Size) -> RunConfig:
    """The first run, which keeps what is judged: all seeds of so many prompts, of its base and of two steps."""
    asked = [
        f"steps={size.steps}",
        f"evaluation.every={max(1, size.steps // 2)}",
        f"evaluation.shown={size.shown}",
        f"evaluation.seeds={list(range(1, size.seeds + 1))}",
        f"evaluation.shown_seeds={size.seeds}",
    ]
    return load(preset_path("shapes-branchgrpo"), [*asked, *size.overrides])


def _path(strict: list[tuple[int, float]]) -> str:
    return ", ".join(f"{value:.3f} (step {step})" for step, value in strict)


def _board(board: dict[str, Any]) -> str:
    """Votes, and each model's rating and win rate over the base with their intervals."""

    def interval(value: dict[str, float], form: str) -> str:
        return f"{value['value']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"

    models = [
        f"{one['label']}: Elo {interval(one['rating'], '.0f')}, over the base {interval(one['over_base'], '.2f')}"
        for one in board["models"]
        if one["rating"] and one["over_base"]
    ]
    return "; ".join([f"{board['votes']} votes", *models])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m frontend_components.judging.loop", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="an empty folder for all data")
    parser.add_argument("--steps", type=int, default=Size.steps, help="of the first run (default: %(default)s)")
    parser.add_argument(
        "--shown", type=int, default=Size.shown, help="held-out prompts to judge (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=int, default=Size.seeds, help="samples of each of them (default: %(default)s)")
    parser.add_argument("--votes", type=int, default=Size.votes, help="at most, on models (default: %(default)s)")
    parser.add_argument("--error", type=float, default=Size.error, help="share of choices that are wrong")
    parser.add_argument("--method", choices=("dpo", "dgpo"), default=Size.method)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override the first run")
    options = parser.parse_args(argv)
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"--out: {options.out} is not empty; name another folder")
    if options.seeds < 2:
        parser.error(f"--seeds: {options.seeds} gives no two samples to choose from; give 2 or more")
    size = Size(
        options.steps,
        options.shown,
        options.seeds,
        options.votes,
        error=options.error,
        method=options.method,
        overrides=tuple(options.set),
    )
    loop(options.out.resolve(), size)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
