"""Parameters counted from a configuration against diffusers' own modules of it, made without memory."""

import json
from pathlib import Path

import pytest
import torch

from backend.models import sizes
from tests.backend.models.conftest import Folders

CLASSES = {"sd3": "SD3Transformer2DModel", "flux": "FluxTransformer2DModel", "wan": "WanTransformer3DModel"}


def family_of(base: str) -> str:
    return "wan" if "Wan" in base else "flux" if "FLUX" in base else "sd3"


def made(family: str, config: dict) -> torch.nn.Module:
    import diffusers

    with torch.device("meta"):
        return getattr(diffusers, CLASSES[family])(**config)


def adapted_by_hand(module: torch.nn.Module, family: str) -> int:
    from backend.config import AnyModel  # noqa: F401  the families are imported with it
    from backend.models.flux import Flux
    from backend.models.sd3 import SD3
    from backend.models.wan import Wan

    ends = tuple("." + name for name in {"sd3": SD3, "flux": Flux, "wan": Wan}[family].lora_targets)
    layers = [one for name, one in module.named_modules() if name.endswith(ends)]
    return sum(one.in_features + one.out_features for one in layers)


@pytest.mark.parametrize("base", sizes.PUBLIC)
def test_public_bases_of_two_layers_are_counted_to_the_parameter(base: str) -> None:
    """Two layers of each kind, since layers are equal but for the last and the dual ones."""
    family = family_of(base)
    config = dict(sizes.PUBLIC[base]) | {"num_layers": 2}
    if family == "sd3":
        config["dual_attention_layers"] = config["dual_attention_layers"][:1]
    if family == "flux":
        config["num_single_layers"] = 2
    module = made(family, config)
    size = {"sd3": sizes.sd3, "flux": sizes.flux, "wan": sizes.wan}[family](config)
    assert size.parameters == sum(one.numel() for one in module.parameters())
    assert size.adapted == adapted_by_hand(module, family)


@pytest.mark.parametrize(
    ("base", "billions"),
    [
        ("stabilityai/stable-diffusion-3-medium-diffusers", 2.0),
        ("stabilityai/stable-diffusion-3.5-medium", 2.2),
        ("stabilityai/stable-diffusion-3.5-large", 8.1),
        ("black-forest-labs/FLUX.1-dev", 11.9),
        ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 1.4),
        ("Wan-AI/Wan2.1-T2V-14B-Diffusers", 14.3),
        ("Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", 16.4),
    ],
)
def test_public_bases_are_as_large_as_they_are_known_to_be(base: str, billions: float) -> None:
    size = sizes.size_of(family_of(base), base)
    assert size is not None
    assert round(size.parameters / 1e9, 1) == billions


def test_the_bundled_base_is_counted_from_its_own_file() -> None:
    from backend.shapes.bundle import BASE

    config = json.loads((Path(BASE) / "transformer" / "config.json").read_text())
    module = made("sd3", {name: value for name, value in config.items() if not name.startswith("_")})
    size = sizes.size_of("sd3", str(BASE))
    assert size is not None
    assert size.parameters == sum(one.numel() for one in module.parameters())


def test_an_unknown_base_has_no_size() -> None:
    assert sizes.size_of("flux", "someone/else") is None


@pytest.mark.parametrize("config", [{"_class_name": "FluxTransformer2DModel"}, {"attention_head_dim": 64}])
def test_a_configuration_of_another_family_or_with_gaps_tells_no_size(tmp_path: Path, config: dict) -> None:
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "config.json").write_text(json.dumps(config))
    assert sizes.size_of("sd3", str(tmp_path)) is None


def test_what_lies_beside_the_transformer_is_counted_in_a_folders_files(folders: Folders) -> None:
    from diffusers import WanPipeline

    pipeline = WanPipeline.from_pretrained(folders.wan)
    counted = tuple(sum(one.numel() for one in part.parameters()) for part in (pipeline.text_encoder, pipeline.vae))
    assert sizes.beside("wan", folders.wan) == counted
    assert sizes.beside("wan", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers") == sizes.BESIDE["wan"]
