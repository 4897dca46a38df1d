"""Checkpoints: written whole or not at all, checked when opened, resumed from exactly."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.models import lora_file
from backend.models.weights import ADAPTER, Ema
from backend.types import Memory

MARKER = "complete.json"
WEIGHTS = "trained.safetensors"
_NAME = re.compile(r"checkpoint-(\d+)")


def digest(path: Path) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def save(
    run_dir: Path,
    step: int,
    policy: Any,
    optimizer: torch.optim.Optimizer,
    ema: Ema | None,
    config: str,
    memory: Memory | None = None,
) -> Path:
    """Write RUN_DIR/checkpoint-<step> under a temporary name, sync, list the files with their hashes, rename.

    Trained weights, their moving average and the method's old weights are safetensors, the optimizer and the method's
    memory torch files. A LoRA is also written as
    pytorch_lora_weights.safetensors, which pipeline.load_lora_weights reads.
    """
    from safetensors.torch import save_file

    final = run_dir / f"checkpoint-{step}"
    temporary = run_dir / f".checkpoint-{step}.writing"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    trained = {name: value.detach().contiguous() for name, value in policy.trained().items()}
    _refuse_bad(trained, f"step {step}")
    notes = {"step": str(step), "base": policy.settings.base, "tuning": policy.settings.tuning.kind}
    save_file(trained, temporary / WEIGHTS, metadata=notes)
    if ema is not None:
        save_file({name: value.contiguous() for name, value in ema.shadow.items()}, temporary / "ema.safetensors")
    if policy.tuned.old is not None:
        save_file(policy.tuned.old.values, temporary / "old.safetensors")
    if memory is not None:
        torch.save(memory.state_dict(), temporary / "memory.pt")
    torch.save(optimizer.state_dict(), temporary / "optimizer.pt")
    (temporary / "config.yaml").write_text(config, encoding="utf-8")
    if policy.settings.tuning.kind == "lora":
        _save_lora(policy, trained, notes, temporary)
    files = sorted(path for path in temporary.iterdir())
    for path in files:
        sync(path)
    marker = {"step": step, "files": {path.name: digest(path) for path in files}}
    (temporary / MARKER).write_text(json.dumps(marker, indent=1))
    sync(temporary / MARKER)
    before = run_dir / f".checkpoint-{step}.before"
    shutil.rmtree(before, ignore_errors=True)
    if final.exists():  # the same step again, as when a stop follows a periodic save: there is a whole one all the time
        final.rename(before)
    temporary.rename(final)
    sync(run_dir)
    shutil.rmtree(before, ignore_errors=True)
    return final


def _save_lora(policy: Any, trained: dict[str, Tensor], notes: dict[str, str], folder: Path) -> None:
    adapter = lora_file.adapter_notes(policy.module.peft_config[ADAPTER])
    lora_file.write(folder / lora_file.FILE, trained, adapter, notes, policy.settings.family)


def _refuse_bad(tensors: dict[str, Tensor], where: str) -> None:
    for name, value in tensors.items():
        if not torch.isfinite(value).all():
            raise ValueError(f"checkpoint: {name} is not finite at {where}; the last good checkpoint is kept")
    if not tensors:
        raise ValueError(f"checkpoint: nothing is trained at {where}, so there is nothing to keep; set model.tuning")
    if all(not value.any() for value in tensors.values()):
        raise ValueError(f"checkpoint: all trained weights are zero at {where}; the last good checkpoint is kept")


def is_complete(folder: Path) -> bool:
    """Whether every file that the marker lists is there and unchanged."""
    marker = folder / MARKER
    if not marker.is_file():
        return False
    files = json.loads(marker.read_text())["files"]
    return all((folder / name).is_file() and digest(folder / name) == expected for name, expected in files.items())


def latest(run_dir: Path) -> Path | None:
    """The newest complete checkpoint of a run; a torn one is passed over for the one before it."""
    found = [(int(match[1]), path) for path in run_dir.iterdir() if (match := _NAME.fullmatch(path.name))]
    return next((path for _, path in sorted(found, reverse=True) if is_complete(path)), None)


def load_weights(folder: Path, policy: Any, prefer_ema: bool = False) -> int:
    """Copy trained weights into the policy; return their step. Raises ValueError unless every name and shape fits."""
    from safetensors.torch import load_file

    if not is_complete(folder):
        raise ValueError(f"checkpoint: {folder} is incomplete or changed on disk; choose another checkpoint of the run")
    source = folder / "ema.safetensors"
    stored = load_file(source if prefer_ema and source.is_file() else folder / WEIGHTS)
    trained = policy.trained()
    if stored.keys() != trained.keys():
        odd = sorted(stored.keys() ^ trained.keys())
        raise ValueError(f"checkpoint: {folder} holds other weights than this model trains, for example {odd[0]}")
    _refuse_bad(stored, str(folder))
    with torch.no_grad():
        for name, value in stored.items():
            if value.shape != trained[name].shape:
                raise ValueError(
                    f"checkpoint: {name} is {list(value.shape)} in {folder} but {list(trained[name].shape)} here; "
                    "use the configuration it was trained with"
                )
            trained[name].copy_(value)
    return int(json.loads((folder / MARKER).read_text())["step"])


def resume(
    folder: Path, policy: Any, optimizer: torch.optim.Optimizer, ema: Ema | None, memory: Memory | None = None
) -> int:
    """Restore everything that the next step depends on; return the step that the checkpoint was saved after."""
    from safetensors.torch import load_file

    step = load_weights(folder, policy)
    # states are read to the CPU and copied to where the tensors are: a run may go on on another device
    optimizer.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=True, map_location="cpu"))
    if ema is not None:
        _copy(load_file(folder / "ema.safetensors"), ema.shadow)
    if policy.tuned.old is not None:
        _copy(load_file(folder / "old.safetensors"), policy.tuned.old.values)
    if memory is not None:
        memory.load_state_dict(torch.load(folder / "memory.pt", weights_only=True, map_location="cpu"))
    return step


@torch.no_grad()
def _copy(stored: dict[str, Tensor], into: dict[str, Tensor]) -> None:
    for name, value in into.items():
        value.copy_(stored[name])
