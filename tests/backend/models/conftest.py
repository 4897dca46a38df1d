from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.models.flux import Flux
from backend.models.sd3 import SD3
from backend.models.wan import Wan
from backend.models.weights import Lora
from tests.backend.models import tiny

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Folders:
    """Pipeline folders of tiny checkpoints, and a picture."""

    flux: str
    wan: str
    wan_image: str
    picture: str


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> Folders:
    from PIL import Image

    at: Path = tmp_path_factory.mktemp("tiny")
    Image.linear_gradient("L").convert("RGB").resize((48, 32)).save(at / "picture.png")
    tiny.save_flux(at / "flux")
    tiny.save_wan(at / "wan")
    tiny.save_wan_image(at / "wan_image")
    return Folders(*(str(at / name) for name in ("flux", "wan", "wan_image", "picture.png")))


SMALL = {"dtype": "fp32", "prompt_cache": False, "tuning": Lora(rank=4, alpha=8)}


@pytest.fixture(scope="session")
def settings_of(folders):
    """Settings of a tiny base of each family: settings_of("flux", guidance=2.0)."""

    def build(family: str, **more: Any) -> Any:
        if family == "sd3":
            return SD3(**{"tuning": SMALL["tuning"]} | more)
        if family == "flux":
            return Flux(**SMALL | {"base": folders.flux, "resolution": 16, "max_text_tokens": 12} | more)
        video = {"height": 32, "width": 48, "frames": 5, "max_text_tokens": 12}
        if family == "wan":
            return Wan(**SMALL | video | {"base": folders.wan} | more)
        return Wan(**SMALL | video | {"base": folders.wan_image, "first_frame": folders.picture} | more)

    return build


@pytest.fixture
def load(settings_of):
    """The policy of a tiny base: load("wan", guidance=1.0)."""
    return lambda family, **more: settings_of(family, **more).load(CPU, seed=0)


@pytest.fixture(scope="session")
def shaken():
    """The policy with trained weights moved, as after some updates."""

    def move(policy: Any, by: float = 0.05) -> Any:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for value in policy.trained().values():
                value.add_(by * torch.randn(value.shape, generator=generator))
        return policy

    return move
