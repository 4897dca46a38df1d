"""How raw rewards are brought to one size before they are summed. Raw values are kept; the weight is the scaling.

An offset that papers subtract (MixGRPO's (PickScore - 18) / 8) changes no advantage, so it has no place here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field


@dataclass(frozen=True)
class Scaling:
    """raw: the usual range of the raw value; weight: the factor that is the default; source: who uses it."""

    raw: str
    weight: float
    source: str


TABLE = {
    "clipscore": Scaling("100 x cosine, about 20 to 35", 1 / 30, "DGPO 1/30, DiffusionNFT 1/100"),
    "pickscore": Scaling("100 x cosine, about 18 to 25", 1 / 26, "Flow-GRPO, DGPO, DiffusionNFT 1/26; MixGRPO 1/8"),
    "hpsv2": Scaling("cosine, about 0.20 to 0.38", 1.0, "DanceGRPO, MixGRPO, BranchGRPO, DiffusionNFT 1"),
    "imagereward": Scaling("a z-score, about -2 to 2", 1.0, "Flow-GRPO, MixGRPO 1"),
    "videoalign": Scaling("a z-score, or the sum of three", 1.0, "DanceGRPO 1"),
    "aesthetic": Scaling("about 4 to 7", 0.1, "ours; as a table entry it is raw"),
    "jpeg_size": Scaling("kB of 1000 bytes", 1 / 500, "DDPO 1/500"),
    "geneval": Scaling("graded up to 1, strict 0 or 1", 1.0, "Flow-GRPO, DGPO, DiffusionNFT 1"),
    "ocr": Scaling("0 to 1", 1.0, "Flow-GRPO, DGPO 1"),
    "brightness": Scaling("0 to 1", 1.0, "ours"),
    "saturation": Scaling("0 to 1", 1.0, "ours"),
    "edge_density": Scaling("0 to 1", 1.0, "ours"),
    "vision_language": Scaling("as the model is asked, 0 to 5 or 1 to 5", 1 / 5, "Flow-GRPO, DGPO 1/5"),
    "reward_server": Scaling("what the server answers", 1.0, "ours"),
    "hook": Scaling("what the function returns", 1.0, "ours"),
}


def weight(name: str) -> Any:
    """The `weight` field of a reward."""
    scaling = TABLE[name]
    text = f"Factor of the raw value ({scaling.raw}) in the sum of rewards ({scaling.source})"
    return Field(scaling.weight, description=text)
