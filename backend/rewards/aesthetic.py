"""The LAION aesthetic predictor: how pleasing a picture is, whatever its prompt.

Shape legend
    N pictures, E embedding dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from backend.device import pick
from backend.rewards import clip, scaling
from backend.rewards.clip import ClipReward
from backend.rewards.weights_file import commit, find, loading

WIDTHS = (1024, 128, 64, 16, 1)
DROPOUT = (0.2, 0.2, 0.1)


def head(embedding: int) -> nn.Sequential:
    """Five linear layers without activations; dropout, off in use, follows the first three (the released predictor)."""
    layers: list[nn.Module] = []
    for number, (inner, outer) in enumerate(zip((embedding, *WIDTHS[:-1]), WIDTHS, strict=True)):
        layers.append(nn.Linear(inner, outer))
        if number < len(DROPOUT):
            layers.append(nn.Dropout(DROPOUT[number]))
    return nn.Sequential(*layers)


@lru_cache(maxsize=2)
def opened(file: str) -> nn.Sequential:
    """The predictor of a state dict whose names start with `layers.`; the first layer says how wide embeddings are."""
    with loading("rewards.aesthetic.predictor", file):
        stored = torch.load(find(file), map_location="cpu", weights_only=True)
        layers = {name.removeprefix("layers."): value for name, value in stored.items()}
        model = head(layers["0.weight"].shape[1])
        model.load_state_dict(layers)
    return model.to(pick()).float().eval().requires_grad_(False)


class Aesthetic(ClipReward):
    """A predictor of people's ratings of 1 to 10 on unit CLIP ViT-L/14 embeddings, about 4 to 7.

    sac+logos+ava1-l14-linearMSE, MIT licence, 3.7 MB, as TRL keeps it on the hub (unpinned), on OpenAI's ViT-L/14
    (MIT, 1.7 GB, pinned).
    """

    name: Literal["aesthetic"] = "aesthetic"
    weight: float = scaling.weight("aesthetic")
    checkpoint: str = Field(
        clip.OPENAI_L14, min_length=1, description="CLIP model of transformers that embeds pictures: hub id or folder"
    )
    revision: str | None = commit(clip.OPENAI_L14_REVISION)
    predictor: str = Field(
        "trl-lib/ddpo-aesthetic-predictor/aesthetic-model.pth",
        min_length=1,
        description="State dict of the predictor: a file, or owner/name/file of the hub",
    )

    def _judge(self, pictures: Tensor, prompts: Sequence[str]) -> Tensor:
        model = clip.opened(
            "rewards.aesthetic.checkpoint", self.checkpoint, self.revision, self.checkpoint, self.revision
        )
        predictor = opened(self.predictor)
        rows = torch.arange(len(pictures)).split(self.batch)
        return torch.cat([predictor(model.pictures(pictures[at]))[:, 0] for at in rows])
