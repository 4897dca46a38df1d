"""`espalier bench methods`: measure the methods against each other, part by part, and write the document."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from backend.benchmarks import distribution, iteration, jobs, records, report
from backend.benchmarks.forwards import count_all
from backend.benchmarks.iteration import one_thread
from backend.benchmarks.jobs import Job
from backend.benchmarks.records import Stored, Trained
from backend.benchmarks.runs import run_all
from backend.benchmarks.variants import FULL, QUICK, Profile

TRAINED = ("search", "main", "ablations", "long")
PARTS = ("iteration", "distribution", *TRAINED)
Say = Callable[[str], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="20 minutes that decide nothing, in place of 4 hours")
    parser.add_argument("--only", metavar="METHOD", help="only this method's runs")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; repeat for several")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the document from what is stored")
    parser.add_argument("--redo", action="store_true", help="replace stored runs that were made with other settings")
    parser.add_argument("--out", type=Path, help="where results.md and results/ are (default docs; quick: data/quick)")


def run(options: argparse.Namespace) -> Path:
    """What the command line asks for; returns the document's path."""
    profile = QUICK if options.quick else FULL
    out = options.out or Path("data/quick" if options.quick else "docs")
    if not options.report:
        with interrupted_by_sigterm():
            measure(out / "results", profile, options.part or PARTS, options.only, options.redo, _say)
    return report.write(out, profile)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the children and removes their folders, as Ctrl+C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def measure(results: Path, profile: Profile, parts: Sequence[str], only: str | None, redo: bool, say: Say) -> None:
    """Run what is asked for and not stored yet; a run that is cut off is begun again, stored ones are kept."""
    if "iteration" in parts and only is None:
        wanted = iteration.configs()
        _once(
            results / iteration.FILE, iteration.mark(wanted, profile), redo, say,
            lambda: iteration.measure(wanted, profile),
        )  # fmt: skip
    if "distribution" in parts and only is None:
        tree = distribution.trained_tree()
        _once(
            results / distribution.FILE, distribution.mark(tree, profile), redo, say,
            lambda: distribution.measure(tree, profile),
        )  # fmt: skip
    if not set(TRAINED) & set(parts):
        return
    jobs.check_ground(jobs.entrants(only))
    tried = jobs.search_jobs(profile, only)
    if "search" in parts:
        _train(tried, results, profile, redo, say)
    if parts_left := set(TRAINED) & set(parts) - {"search"}:
        if left := jobs.pending(tried, results, redo):
            raise ValueError(f"search: {len(left)} of {len(tried)} runs are not there; run `--part search` first")
        _train(_chosen(results, profile, parts_left, only), results, profile, redo, say)


def _chosen(results: Path, profile: Profile, parts: Collection[str], only: str | None) -> list[Job]:
    """The runs with the settings that the search has found."""
    stored = records.of(Trained, records.read_all(results))
    picked = jobs.picks(stored, profile, only)
    wanted_jobs: list[Job] = []
    # the longest first, so that no run is left alone at the end
    if "long" in parts:
        wanted_jobs += jobs.long_jobs(profile, stored, picked)
    if "main" in parts:
        wanted_jobs += jobs.main_jobs(profile, picked, only)
    if "ablations" in parts:
        wanted_jobs += jobs.study_jobs(profile, picked)
    return wanted_jobs


def _once(path: Path, mark: str, redo: bool, say: Say, measured: Callable[[], Stored]) -> None:
    """Measure unless the file is there. Raises ValueError when it was made with other settings, unless `redo`."""
    if path.is_file():
        if records.read(path).fingerprint == mark:
            return
        if not redo:
            raise ValueError(f"{path} was measured with other settings; add --redo to replace it")
    say(f"{path.stem}: measuring")
    records.write(path, measured())


def _train(wanted: Sequence[Job], results: Path, profile: Profile, redo: bool, say: Say) -> None:
    left = jobs.pending(wanted, results, redo)
    if not left:
        return
    say(f"{len(left)} of {len(wanted)} runs to do, {sum(job.seconds for job in left) / 3600:.1f} hours of one core")
    with one_thread():
        forwards = count_all([job.config for job in left])
    run_all(left, forwards, profile, results, say)


def _say(line: str) -> None:
    print(line, flush=True)
