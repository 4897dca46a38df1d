"""Espalier: `python app.py COMMAND` and `espalier COMMAND` are the same program."""

from __future__ import annotations

import os
import sys
from importlib import import_module

# spinning OpenMP threads beside another busy process are ten times slower; must be set before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

COMMANDS = {
    "serve": ("frontend_components.server", "the pages, and on one machine also database, broker and worker"),
    "worker": ("workers.app", "a worker that takes queued runs"),
    "launch": ("workers.queue", "put a run in the queue"),
    "import": ("workers.adopt", "take a run folder into the lab"),
    "runs": ("frontend_components.listing:list_runs", "list the runs"),
    "show": ("frontend_components.listing:show_run", "show one run"),
    "train": ("backend.train_command", "train in this process, without database, worker or page"),
    "collect": ("backend.collect", "sample groups once and store them with their rewards, for offline training"),
    "plan": ("backend.plan", "what a run would cost: levels, forwards, trained edges, memory"),
    "evaluate": ("backend.evaluate", "held-out accuracy of a base or a checkpoint"),
    "prompts": ("backend.prompts.command", "check a file of prompts before a run uses it"),
    "lora": ("backend.lora_export", "write a checkpoint's LoRA as a file for diffusers or ComfyUI"),
    "votes": (
        "frontend_components.judging.votes_command",
        "export, import, train on, or fit a reward to votes",
    ),
    "bench": (
        "frontend_components.judging.bench_votes",
        "measurements: a step, a preset, the methods, votes",
    ),
}


def usage() -> str:
    lines = [f"  {name:<10}{text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["usage: espalier COMMAND [...]; espalier COMMAND --help tells more", "", *lines])


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"espalier: {command!r} is not a command\n{usage()}", file=sys.stderr)
        return 2
    module, _, function = COMMANDS[command][0].partition(":")
    return int(getattr(import_module(module), function or "main")(rest))


if __name__ == "__main__":
    raise SystemExit(main())
