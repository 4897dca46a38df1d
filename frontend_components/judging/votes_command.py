"""`espalier votes`: the votes of a review set as files, and what is trained and fitted on them, without a server."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from backend.preferences import exchange, judged_folder
from db.session import migrate, reading, writing
from db.settings import settings
from frontend_components.judging import review_archive
from frontend_components.judging.learned_rewards import reporting
from frontend_components.judging.vote_training import TrainIn, judged, run_config


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    migrate()
    actions = {"export": _export, "import": _import, "train": _train, "fit": _fit}
    try:
        return actions[options.what](options)
    except (ValueError, LookupError, OSError) as error:
        print(f"espalier votes: {error.args[0] if isinstance(error, LookupError) else error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="espalier votes", description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True)
    out = kinds.add_parser("export", help="write the votes of a set to a file")
    out.add_argument("set", help="id of the review set")
    out.add_argument("--out", type=Path, required=True, metavar="FILE")
    out.add_argument(
        "--media-url",
        default=f"{settings().public_url or ''}/media/".lstrip("/"),
        help="what stands before the hash of a picture (default: %(default)s)",
    )
    into = kinds.add_parser("import", help="make a set from a file; prints its id")
    into.add_argument("file", type=Path)
    into.add_argument("--name", help="of the set, where the file has none (default: the file's name)")
    for kind in (out, into):
        kind.add_argument("--format", choices=exchange.NAMES, default=exchange.NATIVE, help="(default: %(default)s)")
    train = kinds.add_parser("train", help="queue a run that trains on the votes; prints its id")
    train.add_argument("set", help="id of the review set")
    train.add_argument("--method", choices=("dpo", "dgpo"), default="dpo", help="(default: %(default)s)")
    train.add_argument("--steps", type=int, help="(default: 2.5 passes over the pairs)")
    train.add_argument("--name", default="from votes", help="of the run (default: %(default)s)")
    train.add_argument("--evaluate-judged", action="store_true", help="evaluate prompts that are trained on, too")
    train.add_argument("--config", type=Path, metavar="FILE", help="write the run's YAML instead of queueing it")
    fit = kinds.add_parser("fit", help="fit a reward to the votes, for `rewards: [{name: learned, file: ...}]`")
    fit.add_argument("set", help="id of the review set, or a folder of judged pairs below data/votes")
    fit.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .safetensors; a .json goes beside it")
    fit.add_argument("--base", default="shapes", help="model.base whose features it uses (default: %(default)s)")
    fit.add_argument("--set-id", default="", metavar="SET", help="beside a folder: the review set that it was made of")
    fit.add_argument("--json", action="store_true", help="print the accuracy as JSON")
    return parser


def _export(options: argparse.Namespace) -> int:
    with reading() as session:
        archive = review_archive.archive(session, options.set)
    options.out.write_bytes(exchange.write(archive, options.format, options.media_url))
    print(f"written: {options.out}")
    return 0


def _import(options: argparse.Namespace) -> int:
    archive = exchange.read(options.file.read_bytes(), options.format, options.name or options.file.stem, "local")
    with writing() as session:
        print(review_archive.restore(session, archive))
    return 0


def _train(options: argparse.Namespace) -> int:
    from backend.config import dump
    from workers import queue

    wish = TrainIn(
        method=options.method, steps=options.steps, name=options.name, evaluate_judged=options.evaluate_judged
    )
    archive, found = judged(options.set)
    config = run_config(archive, found.folder, wish)
    print(f"{found.pairs} pairs are decided; left out: {found.left_out or 'none'}", file=sys.stderr)
    if options.config is None:
        print(queue.launch(config, None, "local"))
        return 0
    options.config.write_text(dump(config), encoding="utf-8")
    print(f"written: {options.config}; train with `espalier train {options.config} --out DIR`")
    return 0


def _fit(options: argparse.Namespace) -> int:
    from backend.rewards.preference_fit import fit

    given = Path(options.set)
    of_folder = judged_folder.is_judged(given)
    if options.set_id and not of_folder:
        raise ValueError(f"--set-id: {options.set} is no folder of judged pairs; name the set alone")
    folder = given if of_folder else judged(options.set)[1].folder
    set_id = options.set_id if of_folder else options.set
    with reporting(set_id) as report:
        found = fit(folder, options.base, options.out, set_id, report)
    accuracy = found.accuracy
    if options.json:
        told = {"pairs": found.pairs, "accuracy": accuracy.value, "low": accuracy.low, "high": accuracy.high}
        print(json.dumps(told))
        return 0
    print(
        f"written: {options.out}\nprefers what was voted for in {accuracy.value:.1%} "
        f"[{accuracy.low:.1%}, {accuracy.high:.1%}] of pairs of held-out prompts ({found.pairs} pairs; chance is 50 %)"
    )
    return 0
