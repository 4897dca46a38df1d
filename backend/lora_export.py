"""`espalier lora export`: the LoRA of a checkpoint as one file for diffusers or ComfyUI."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import cast, get_args

from backend import checkpoint
from backend.config import RunConfig, load
from backend.models import lora_file
from backend.models.lora_file import Style


def notes_of(folder: Path, config: RunConfig) -> dict[str, str]:
    """What a LoRA file says of where it comes from."""
    notes = {
        "base": config.model.base,
        "family": config.model.family,
        "method": config.method.name,
        "step": folder.name.removeprefix("checkpoint-"),
        "run": folder.resolve().parent.name,
        "run_name": config.name,
    }
    return notes | ({"lora": config.model.lora} if config.model.lora else {})


def export(folder: Path, out: Path, style: Style = "diffusers", average: bool = False) -> Path:
    """Write the checkpoint's LoRA to `out`, and return it.

    average  the moving average of the weights, which evaluations use where a run keeps one.
    Raises ValueError for an incomplete checkpoint, one of full tuning, one that changes nothing, or one without the
    average.
    """
    from safetensors import safe_open
    from safetensors.torch import load_file

    if not checkpoint.is_complete(folder):
        raise ValueError(f"checkpoint: {folder} is incomplete or no checkpoint; give a run's checkpoint-<step> folder")
    config = load(folder / "config.yaml")
    if config.model.tuning.kind != "lora":
        raise ValueError(f"checkpoint: {folder} is of full tuning, which has no LoRA; set model.tuning.kind to lora")
    weights = folder / ("ema.safetensors" if average else checkpoint.WEIGHTS)
    if not weights.is_file():
        raise ValueError(f"--average: {folder} keeps no moving average (optimizer.ema_decay); leave the option out")
    with safe_open(folder / lora_file.FILE, framework="pt") as opened:
        adapter = lora_file.read_adapter(opened.metadata())
    trained = load_file(weights)
    if not any(value.any() for name, value in trained.items() if ".lora_B." in name):
        raise ValueError(
            f"checkpoint: the adapter in {folder} is empty or all zero and would change nothing; export a checkpoint "
            "that was saved after the first update"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    lora_file.write(out, trained, adapter, notes_of(folder, config), config.model.family, style)
    return out


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="espalier lora", description="A checkpoint's LoRA as a file of its own.")
    actions = parser.add_subparsers(dest="action", required=True)
    one = actions.add_parser("export", help="write it for diffusers (load_lora_weights) or ComfyUI")
    one.add_argument("checkpoint", type=Path, help="RUN_DIR/checkpoint-<step>")
    one.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .safetensors file")
    one.add_argument("--style", choices=get_args(Style), default="diffusers", help="key names (default: %(default)s)")
    one.add_argument("--average", action="store_true", help="the moving average of the weights, if the run kept one")
    options = parser.parse_args(argv)
    try:
        out = export(options.checkpoint, options.out, cast(Style, options.style), options.average)
    except ValueError as error:
        print(f"espalier lora: {error}", file=sys.stderr)
        return 2
    print(out)
    return 0
