"""`espalier train`: a run in this process and those it starts, with a progress bar; stopped by a line on standard input
or a signal."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from backend.clock import Budget
from backend.config import RunConfig, dump, load
from backend.events import EvaluationDone, Event, EventLog, RunEnded, RunStarted, StepDone
from backend.headline import headline
from backend.peers import PEER, Peers, leave_with_parent
from backend.ranks import Joined, PeerLost, check_devices, join, launched
from backend.train import Emit, failed, train

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class StopRequest:
    """Set by a `stop` line or the end of standard input, SIGTERM, or Ctrl+C."""

    def __init__(self, watch_stdin: bool) -> None:
        self._asked = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._asked.set())
        if watch_stdin:
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        # EOF means that the supervisor is gone, so this run is nobody's any more
        for line in iter(sys.stdin.readline, ""):
            if line.strip() == "stop":
                break
        self._asked.set()

    def __call__(self) -> bool:
        return self._asked.is_set()


class _Bar:
    """A progress bar over steps, fed by the events. step: the last that is done."""

    def __init__(self, log: EventLog, total: int, quiet: bool) -> None:
        from tqdm import tqdm

        self._log = log
        self.step = 0
        self._bar = tqdm(total=total, unit="step", disable=quiet, dynamic_ncols=True)

    def __call__(self, event: Event) -> None:
        self._log(event)
        if isinstance(event, RunStarted):
            self.step = event.start_step
            self._bar.update(event.start_step - self._bar.n)
        elif isinstance(event, StepDone):
            self._bar.set_postfix(reward=f"{event.metrics['train/reward_mean'] or 0:.3f}")
            self.step = event.step
            self._bar.update(event.step - self._bar.n)
        elif isinstance(event, EvaluationDone):
            for name, value in headline(event.report).items():
                self._bar.write(f"step {event.step}: {name} {value}")
        elif isinstance(event, RunEnded):
            self._bar.close()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="espalier train", description="Train a run, on as many processes as it says.")
    parser.add_argument("config", type=Path, help="a YAML file, for example configs/shapes-branchgrpo.yaml")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="run folder: events, media, checkpoints")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting")
    parser.add_argument("--resume", action="store_true", help="go on from the newest complete checkpoint in DIR")
    parser.add_argument("--watch-stdin", action="store_true", help="stop at a `stop` line or the end of standard input")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="end after so many seconds of training steps; evaluations do not count, and the last one is made",
    )
    parser.add_argument(
        "--clock",
        choices=sorted(CLOCKS),
        default="wall",
        help="what counts seconds: the wall clock or the processor (cpu: of all threads, waiting left out)",
    )
    parser.add_argument(PEER, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    leads = os.environ.get("RANK", "0") == "0"
    try:
        config = load(options.config, options.set)
        check_devices(config.processes)
        if leads and not options.resume and (options.out / "events.jsonl").exists():
            raise ValueError(f"--out: {options.out} already holds a run; add --resume to go on, or name another folder")
        return _lead(config, options, argv) if leads else _follow(config, options)
    except ValueError as error:
        print(f"espalier train: {error}", file=sys.stderr)
        return 2


def _lead(config: RunConfig, options: argparse.Namespace, argv: list[str]) -> int:
    """Train as the process that evaluates, saves and tells; with the others of the run, which it starts if need be."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    if (out / "config.yaml").resolve() != options.config.resolve():
        (out / "config.yaml").write_text(dump(config), encoding="utf-8")
    stop = StopRequest(options.watch_stdin)
    log = EventLog(out / "events.jsonl")
    bar = _Bar(log, config.steps, options.watch_stdin)

    def lost(what: str) -> None:
        bar(failed(out, bar.step, what))
        os._exit(1)

    peers = Peers(config.processes, argv, lost) if config.processes > 1 and launched() == 1 else None
    try:
        outcome = _trained(config, options, bar, stop)
    except PeerLost as error:
        outcome = "failed"
        bar(failed(out, bar.step, (peers.wait_for_loss() if peers else "") or str(error)))
    finally:
        if peers:
            peers.close()
    log.close()
    return 1 if outcome == "failed" else 0


def _follow(config: RunConfig, options: argparse.Namespace) -> int:
    """Train as one of the others of a run."""
    if options.peer:
        leave_with_parent()
    stop = (lambda: False) if options.peer else StopRequest(options.watch_stdin)
    return 1 if _trained(config, options, lambda event: None, stop) == "failed" else 0


def _trained(config: RunConfig, options: argparse.Namespace, emit: Emit, stop: Callable[[], bool]) -> str:
    ranks = join(config.processes)
    budget = Budget(options.seconds, CLOCKS[options.clock])
    outcome = train(config, options.out, emit, stop, options.resume, budget, ranks)
    if isinstance(ranks, Joined) and outcome != "failed":
        ranks.leave()
    return outcome
