"""The checkpoint of VideoAlign's reward model: its folder, its constants, its weights by the names of transformers.

    FOLDER/model_config.json        constants: mean and std of the outputs, the rate and size of frames, LoRA's scale
    FOLDER/checkpoint-N/model.pth   state dict of Qwen2-VL with LoRA (peft's names) and of the head `rm_head`

Source: KwaiVGI/VideoAlign, inference.py and train_reward.py; the hub's repository KwaiVGI/VideoReward.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.rewards.weights_file import NEWEST

PUBLISHED = "KwaiVGI/VideoReward"
SETTINGS = "model_config.json"
DIMENSIONS = ("VQ", "MQ", "TA")
READ_AS = {  # how the outputs are asked for, in the one form that is built here
    ("data_config", "prompt_template_type"): "detailed_special",
    ("data_config", "sample_type"): "uniform",
    ("data_config", "num_frames"): None,
    ("model_config", "reward_token"): "special",
}


@dataclass(frozen=True)
class Constants:
    """What model_config.json says.

    mean, std   of the raw outputs VQ, MQ, TA
    fps         frames seen of each second
    max_pixels  of a frame
    lora_scale  factor of B A, 0 without LoRA
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    fps: float
    max_pixels: int
    lora_scale: float


def find_folder(where: str, revision: str | None) -> Path:
    """A folder on disk, or owner/name of the hub, of which only the files that are read are fetched. Raises OSError."""
    from huggingface_hub import snapshot_download

    if Path(where).is_dir():
        return Path(where)
    if where.startswith(("/", ".")) or where.count("/") != 1:
        raise FileNotFoundError("it is neither a folder nor owner/name of the hub")
    wanted = [SETTINGS, "checkpoint-*/model.pth"]
    return Path(snapshot_download(where, revision=revision or NEWEST, allow_patterns=wanted))


def weights_path(folder: Path) -> Path:
    """model.pth of the last step. Raises FileNotFoundError where there is none."""
    found = sorted(folder.glob("checkpoint-*/model.pth"), key=lambda path: int(path.parent.name.split("-")[1]))
    if not found:
        raise FileNotFoundError(f"no checkpoint-N/model.pth in {folder}")
    return found[-1]


def constants(folder: Path) -> Constants:
    """Raises FileNotFoundError without model_config.json, and ValueError for one that lacks or contradicts a value."""
    path = folder / SETTINGS
    if not path.is_file():
        raise FileNotFoundError(f"no {SETTINGS} in {folder}; it holds the mean and std of the outputs")
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"rewards.videoalign.checkpoint: {path} is no JSON ({error}); {_remedy()}") from error
    for (section, key), expected in READ_AS.items():
        if (value := stored.get(section, {}).get(key)) != expected:
            raise ValueError(
                f"rewards.videoalign.checkpoint: {section}.{key} in {path} is {value!r}, and only {expected!r} is read "
                f"here; {_remedy()}"
            )
    return Constants(
        mean=tuple(_number(path, stored, "inference_config", f"{one}_mean") for one in DIMENSIONS),
        std=tuple(_number(path, stored, "inference_config", f"{one}_std") for one in DIMENSIONS),
        fps=_number(path, stored, "data_config", "fps"),
        max_pixels=int(_number(path, stored, "data_config", "max_frame_pixels")),
        lora_scale=_lora_scale(path, stored),
    )


def _lora_scale(path: Path, stored: Mapping[str, Any]) -> float:
    lora = stored.get("peft_lora_config", {})
    if not lora.get("lora_enable"):
        return 0.0
    alpha, rank = (_number(path, stored, "peft_lora_config", key) for key in ("lora_alpha", "lora_r"))
    return alpha / (math.sqrt(rank) if lora.get("use_rslora") else rank)


def _number(path: Path, stored: Mapping[str, Any], section: str, key: str) -> float:
    value = stored.get(section, {}).get(key)
    if not isinstance(value, int | float):
        raise ValueError(
            f"rewards.videoalign.checkpoint: {section}.{key} in {path} is {value!r}, not a number; {_remedy()}"
        )
    return float(value)


def _remedy() -> str:
    return f"take {SETTINGS} from the checkpoint's own repository ({PUBLISHED} on the hub)"


def converted(stored: Mapping[str, Tensor], lora_scale: float, dtype: torch.dtype) -> tuple[dict[str, Tensor], Tensor]:
    """-> the weights of transformers' Qwen2VLModel with LoRA folded in, and the head [1 or 3, D] in float32.

    The sum with LoRA is taken in float32, then cast to dtype. Raises KeyError without a head.
    """
    named = {renamed(name): tensor for name, tensor in stored.items()}
    head = named.pop("rm_head.weight").float()
    named.pop("lm_head.weight", None)  # no token is ever predicted
    folded = {}
    for name, tensor in named.items():
        layer, _, kind = name.rpartition(".")
        if kind == "weight" and (down := named.get(f"{layer}.lora_A.default.weight")) is not None:
            tensor = tensor.float() + lora_scale * named[f"{layer}.lora_B.default.weight"].float() @ down.float()
        if not name.endswith((".lora_A.default.weight", ".lora_B.default.weight")):
            folded[name] = tensor.to(dtype)
    return folded, head


def renamed(name: str) -> str:
    """As transformers 5 names it; the release was saved through peft with transformers 4's names."""
    name = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
    if name.startswith(("visual.", "rm_head.", "lm_head.")):
        return name
    name = name.removeprefix("model.")
    return name if name.startswith(("visual.", "language_model.")) else f"language_model.{name}"
