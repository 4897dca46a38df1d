"""`espalier runs` and `espalier show RUN`: the list and one run, as the interface under /api/v1 has them."""

from __future__ import annotations

import argparse
import json

from pydantic import TypeAdapter

from backend.headline import headline
from db.session import migrate
from frontend_components import api


def list_runs(argv: list[str]) -> int:
    """espalier runs [--state STATE] [--search TEXT] [--json]: newest first."""
    parser = argparse.ArgumentParser(prog="espalier runs", description="List runs, newest first.")
    parser.add_argument("--state", action="append", default=[], help="only runs in this state; may be repeated")
    parser.add_argument("--search", default="", help="part of the name, the preset or the id")
    parser.add_argument("--limit", type=int, default=50, help="at most so many, 1 to 200 (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    options = parser.parse_args(argv)
    if not 1 <= options.limit <= 200:
        parser.error(f"--limit: {options.limit} is not between 1 and 200")
    migrate()
    found = api.list_runs(limit=options.limit, state=options.state, search=options.search)
    if options.json:
        print(TypeAdapter(list[api.RunSummary]).dump_json(found, indent=1).decode())
        return 0
    print(f"{'id':<38}{'state':<11}{'step':>11}{'reward':>9}  name")
    for run in found:
        steps = f"{run.step or 0}/{run.total_steps or '?'}"
        reward = "" if run.last_reward is None else f"{run.last_reward:.3f}"
        print(f"{run.id:<38}{run.state:<11}{steps:>11}{reward:>9}  {run.name}")
    return 0


def show_run(argv: list[str]) -> int:
    """espalier show RUN [--json]: one run with its evaluations."""
    parser = argparse.ArgumentParser(prog="espalier show", description="Show one run.")
    parser.add_argument("run", help="its id, or the beginning of it")
    parser.add_argument("--json", action="store_true", help="print it as JSON, with settings, facts and evaluations")
    options = parser.parse_args(argv)
    migrate()
    matches = [run.id for run in api.list_runs(limit=200, search=options.run) if run.id.startswith(options.run)]
    if len(matches) != 1:
        several = f"is the beginning of {len(matches)} ids; give more of it" if matches else "is no run's id"
        parser.error(f"run: {options.run!r} {several}; `espalier runs` lists them")
    run, evaluations = api.one_run(matches[0]), api.evaluation_list(matches[0])
    if options.json:
        shown = run.model_dump(mode="json")
        print(json.dumps({**shown, "evaluations": [one.model_dump(mode="json") for one in evaluations]}, indent=1))
        return 0
    print(f"{run.name}\n  id         {run.id}\n  state      {run.state}{f': {run.state_why}' if run.state_why else ''}")
    print(f"  method     {run.method} on {run.model}, preset {run.preset or 'none'}")
    print(f"  step       {run.step or 0} of {run.total_steps or '?'}, attempt {run.attempt}")
    for one in evaluations:
        for name, value in headline(one.report).items():
            print(f"  held out   {name} {value} at step {one.step}")
    return 0
