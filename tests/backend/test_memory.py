"""The estimate against what torch really keeps, on transformers of the real architectures in small."""

from types import SimpleNamespace

import pytest
import torch

from backend import memory
from backend.config import RunConfig
from backend.models import sizes
from backend.models.flux import Flux
from backend.models.sd3 import SD3
from backend.models.wan import Wan
from backend.models.weights import Lora, tune

TEXT = 64


def small(family: str, dtype: torch.dtype) -> tuple[torch.nn.Module, sizes.Size, dict, int, list[str]]:
    """A transformer of 4 layers, its size, one latent's inputs, its tokens, and the layers that get adapters."""
    import diffusers

    text = torch.randn(1, TEXT, 64, dtype=dtype)
    common = {"joint_attention_dim": 64, "pooled_projection_dim": 32, "num_layers": 4}
    half = torch.tensor([500.0])
    if family == "sd3":
        config = (
            sizes.SD3_MEDIUM | common | {"num_attention_heads": 4, "caption_projection_dim": 256, "sample_size": 32}
        )
        inputs = {"hidden_states": torch.randn(1, 16, 32, 32, dtype=dtype), "pooled_projections": text[:, 0, :32]}
        module, targets, num = diffusers.SD3Transformer2DModel(**config), SD3.lora_targets, 256 + TEXT
    elif family == "flux":
        config = sizes.FLUX | common | {"num_layers": 2, "num_single_layers": 2, "num_attention_heads": 2}
        inputs = {"hidden_states": torch.randn(1, 256, 64, dtype=dtype), "pooled_projections": text[:, 0, :32]}
        inputs |= {"guidance": half.to(dtype), "img_ids": torch.zeros(256, 3), "txt_ids": torch.zeros(TEXT, 3)}
        module, targets, num = diffusers.FluxTransformer2DModel(**config), Flux.lora_targets, 256 + TEXT
    else:
        config = sizes.WAN | {"num_layers": 4, "num_attention_heads": 2, "ffn_dim": 1536, "text_dim": 64}
        inputs = {"hidden_states": torch.randn(1, 16, 2, 32, 32, dtype=dtype)}
        module, targets, num = diffusers.WanTransformer3DModel(**config), Wan.lora_targets, 512
    size = {"sd3": sizes.sd3, "flux": sizes.flux, "wan": sizes.wan}[family](config)
    return module.to(dtype).eval(), size, inputs | {"encoder_hidden_states": text, "timestep": half}, num, list(targets)


def kept(module: torch.nn.Module, inputs: dict) -> int:
    """Bytes of distinct tensors that a forward saves for its backward pass, weights aside."""
    weights = {one.untyped_storage().data_ptr() for one in module.parameters()}
    found, alive = {}, []

    def pack(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
            alive.append(value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        module(**inputs, return_dict=False)
    return sum(found.values())


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("family", ["sd3", "flux", "wan"])
def test_activations_are_estimated_within_a_tenth(family: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    module, size, inputs, num, targets = small(family, {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype])
    monkeypatch.setattr(memory, "tokens", lambda model: num)
    settings = SimpleNamespace(family=family, dtype=dtype, gradient_checkpointing=False)
    tuned = tune(module, Lora(rank=8, alpha=8), targets, 0)
    assert memory.kept_bytes(size, settings) == pytest.approx(kept(tuned.module, inputs), rel=0.1)


@pytest.mark.parametrize("family", ["sd3", "flux", "wan"])
def test_gradient_checkpointing_keeps_the_inputs_of_blocks(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept between the passes is less than the estimate by the block that is computed again."""
    torch.manual_seed(0)
    module, size, inputs, num, targets = small(family, torch.float32)
    monkeypatch.setattr(memory, "tokens", lambda model: num)
    module.enable_gradient_checkpointing()
    tuned = tune(module, Lora(rank=8, alpha=8), targets, 0)
    between = num * size.width * (size.blocks + 1) * 4
    assert between == pytest.approx(kept(tuned.module, inputs), rel=0.1)
    settings = SimpleNamespace(family=family, dtype="fp32", gradient_checkpointing=True)
    plain = SimpleNamespace(family=family, dtype="fp32", gradient_checkpointing=False)
    assert memory.kept_bytes(size, settings) == pytest.approx(between + memory.kept_bytes(size, plain) / size.blocks)


def wan(**model: object) -> memory.Memory:
    config = RunConfig.model_validate(
        {"model": {"family": "wan", "base": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", **model}, "method": {"name": "dgpo"}}
    )
    found = memory.estimate(config, config.method.plan(0, config.grid()))
    assert found is not None
    return found


def test_a_public_base_is_estimated_without_its_files() -> None:
    found = wan()
    assert found.base == 2 * found.parameters == pytest.approx(2.84e9, rel=0.01)
    assert found.trained_parameters == 32 * 30 * 8 * 2 * 1536  # rank, layers, projections, inputs and outputs
    assert found.trained == 4 * 5 * found.trained_parameters  # weight, gradient, two moments, and DGPO's old weights
    assert found.total == found.base + found.beside + found.trained + max(
        found.training, found.sampling, found.decoding
    )


def test_settings_that_save_memory_show_in_the_estimate() -> None:
    plain = wan()
    assert wan(gradient_checkpointing=True).training < plain.training / 10
    assert wan(release_text_encoders=True).beside == plain.beside - 2 * sizes.BESIDE["wan"][0]
    assert wan(offload=True).beside == 0
    assert wan(dtype="fp32").base == 2 * plain.base
    assert wan(guidance=1.0).training == plain.training / 2


def test_a_base_that_is_not_known_is_not_guessed() -> None:
    config = RunConfig.model_validate({"model": {"family": "flux", "base": "someone/else"}, "method": {"name": "dgpo"}})
    assert memory.estimate(config, config.method.plan(0, config.grid())) is None


def test_a_run_records_the_estimate_and_the_peak_it_reached() -> None:
    from backend.config import load, preset_path

    config = load(preset_path("shapes-branchgrpo"))
    found = memory.estimate(config, config.method.plan(0, config.grid()))
    assert found is not None
    assert memory.facts(config) == {"memory": f"{found.total / 1e9:.2f} GB estimated for a device"}
    told = memory.of_step(config, torch.device("cpu"))
    assert told["memory/estimate"] == found.total / 1e9
    assert told["memory/peak"] > 0.05  # GB: torch alone is more
