"""`espalier bench`: measurements that this machine makes, with the numbers they give."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from backend.benchmarks import learning, methods, step, votes_training
from backend.config import load, preset_path

LEARNING = Path("docs/results") / learning.FILE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="espalier bench", description="Measurements, made on this machine.")
    kinds = parser.add_subparsers(dest="what", required=True)
    timed = kinds.add_parser("step", help="where the time of a training step goes")
    timed.add_argument("--steps", type=int, default=10, help="training steps measured, after one to warm up")
    timed.add_argument("--json", action="store_true")
    learnt = kinds.add_parser("learning", help="held-out accuracy before and after a preset, for several seeds")
    learnt.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    learnt.add_argument("--out", type=Path, default=Path("data/learning"), help="run folders, one a seed")
    learnt.add_argument("--record", action="store_true", help=f"also write {LEARNING}, which the results quote")
    for kind in (timed, learnt):
        kind.add_argument("config", type=Path, nargs="?", default=preset_path("shapes-branchgrpo"))
        kind.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting")
    methods.add_options(kinds.add_parser("methods", help="all methods on one base and budget, against the papers"))
    votes_training.add_options(kinds.add_parser("votes-training", help="what simulated votes on Shapes are worth"))
    return parser


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        if options.what == "step":
            timed = step.measure(load(options.config, options.set), options.steps)
            print(json.dumps(timed, indent=1) if options.json else step.words(timed))
        elif options.what == "learning":
            found = learning.measure(options.config, options.seeds, options.out, options.set)
            print(found)
            if options.record:
                LEARNING.parent.mkdir(parents=True, exist_ok=True)
                LEARNING.write_text(found, encoding="utf-8")
        elif options.what == "votes-training":
            print(votes_training.run(options))
        else:
            print(f"written: {methods.run(options)}")
    except KeyboardInterrupt:
        print("espalier bench: stopped; what is stored stays, the same command goes on", file=sys.stderr)
        return 130
    except (ValueError, RuntimeError) as error:
        print(f"espalier bench: {error}", file=sys.stderr)
        return 2
    return 0
