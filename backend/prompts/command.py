"""`espalier prompts check`: what a file of prompts holds, before a run uses it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from backend.prompts import reading
from backend.prompts.check import check
from backend.prompts.report import Repeated, Report, shortened

SHOWN = 20


def main(argv: list[str]) -> int:
    """0: every row is a prompt; 1: some are not; 2: the file cannot be read."""
    parser = argparse.ArgumentParser(prog="espalier prompts", description="Files of prompts (docs/prompts.md).")
    asked = parser.add_subparsers(required=True).add_parser(
        "check", help="counts, duplicates, rows that are no prompts, overlap with other prompts"
    )
    asked.add_argument("file", type=Path, metavar="FILE", help=", ".join(reading.ENDINGS))
    asked.add_argument("--column", help="the column that holds the prompts")
    asked.add_argument(
        "--against", metavar="FILE", help="report texts that this file, or a list such as shapes-test, has too"
    )
    asked.add_argument("--json", action="store_true", help="print all of it as JSON")
    options = parser.parse_args(argv)
    try:
        report = check(reading.read(options.file, options.column), str(options.file), options.against)
    except ValueError as error:
        print(f"espalier prompts check: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report.model_dump(), indent=1) if options.json else words(report))
    return 1 if report.num_bad else 0


def words(report: Report) -> str:
    """The report as text, with the first of long lists."""
    short, unit = shortened(report, SHOWN), report.unit
    counts = f"{report.num_prompts} prompts, {report.num_distinct} different"
    said = [f"{report.name}: {counts}, {report.num_blank} blank {unit}s"]
    for title, numbers in (("tasks", report.tasks), ("metadata", report.metadata)):
        if numbers:
            said.append(f"{title}: " + ", ".join(f"{name} {number}" for name, number in numbers.items()))
    if report.num_negative:
        said.append(f"negative prompts, for classifier-free guidance: {report.num_negative}")
    if report.num_image:
        said.append(f"images, not used by the models here: {report.num_image}")
    if report.num_first_frame:
        said.append(f"first frames, for image-to-video bases: {report.num_first_frame}")
    if report.left_out:
        said.append(f"columns of binary data, not read: {', '.join(report.left_out)}")
    if report.num_bad:
        said += [f"{report.num_bad} {unit}s are no prompts:"]
        said += _some((f"{one.line}: {one.reason}" for one in short.bad), report.num_bad)
    if report.num_repeated:
        said += [f"{report.num_repeated} texts occur more than once:"]
        said += _some(_lines(short.repeated), report.num_repeated)
    if report.overlap is not None and short.overlap is not None:
        said += [f"{report.overlap.num} texts are also in {report.overlap.against}" + ":" * bool(report.overlap.num)]
        said += _some(_lines(short.overlap.prompts), report.overlap.num)
    return "\n".join(said)


def _lines(repeated: Iterable[Repeated]) -> Iterable[str]:
    return (f"{', '.join(map(str, one.lines))}: {one.text}" for one in repeated)


def _some(shown: Iterable[str], num: int) -> list[str]:
    more = [f"  and {num - SHOWN} more; --json lists all"] if num > SHOWN else []
    return [*(f"  {one}" for one in shown), *more]
