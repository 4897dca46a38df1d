import pytest
import torch

from backend import flow
from backend.config import RunConfig, parse
from backend.models.flux import Flux
from backend.models.sd3 import SD3
from backend.models.weights import Full, Lora
from tests.backend.models.tiny import PROMPTS


def test_a_base_of_another_family_is_refused(settings_of, folders):
    with pytest.raises(ValueError, match=r"is a FluxPipeline, and family sd3 loads StableDiffusion3Pipeline"):
        SD3(base=folders.flux).load(torch.device("cpu"), 0)


def test_releasing_without_a_cache_is_refused():
    with pytest.raises(ValueError, match="release_text_encoders: without prompt_cache"):
        SD3(release_text_encoders=True)


def test_full_tuning_of_bf16_weights_is_refused():
    with pytest.raises(ValueError, match="too coarse for full tuning"):
        Flux(tuning=Full())


def test_named_layers_alone_get_adapters(load):
    policy = load("flux", tuning=Lora(rank=2, alpha=2, targets="attn.to_q, attn.to_k"))
    layers = {name.split(".lora_")[0].split(".", 2)[2] for name in policy.trained()}
    assert layers == {"attn.to_q", "attn.to_k"}
    with pytest.raises(ValueError, match=r"model\.tuning\.targets: no adapter fits attn\.nowhere"):
        load("flux", tuning=Lora(targets="attn.nowhere"))


def test_a_lora_of_another_base_is_refused(load, tmp_path, folders):
    from safetensors.torch import save_file

    odd = {f"transformer.elsewhere.lora_{factor}.weight": torch.ones(2, 2) for factor in "AB"}
    save_file(odd, tmp_path / "odd.safetensors")
    with pytest.raises(ValueError, match=r"model\.lora: .*choose one made for it"):
        load("sd3", lora=str(tmp_path / "odd.safetensors"))
    with pytest.raises(ValueError, match=r"model\.lora: nowhere\.safetensors does not exist"):
        load("sd3", lora="nowhere.safetensors")


@pytest.mark.parametrize("family", ["sd3", "flux", "wan"])
def test_resting_modules_change_no_number(load, family):
    plain, resting = load(family), load(family, offload=True)
    x, sigma = torch.randn(2, *plain.latent_shape), torch.tensor([0.3, 0.9])
    ours, other = (one.velocity(x, sigma, one.encode(PROMPTS)) for one in (plain, resting))
    assert torch.equal(ours, other)
    assert torch.equal(plain.decode(x), resting.decode(x))
    moved = x.clone().requires_grad_()
    resting.decode(moved).sum().backward()
    assert moved.grad.abs().max() > 0


@pytest.mark.parametrize(("family", "size"), [("sd3", {"resolution": 128}), ("flux", {"resolution": 64})])
def test_tiles_decode_to_nearly_the_same_frames(load, family, size):
    plain, tiled = load(family, **size), load(family, tiling=True, **size)
    x0 = torch.randn(1, *plain.latent_shape)
    assert tiled.pipeline.vae.use_tiling
    frames, pieces = plain.decode(x0), tiled.decode(x0)
    assert not torch.equal(frames, pieces)
    assert (frames - pieces).abs().mean() < 0.05


@pytest.mark.parametrize("family", ["sd3", "flux", "wan"])
def test_compiled_blocks_give_the_same_velocity_with_each_weights(load, shaken, family):
    plain, compiled = shaken(load(family)), shaken(load(family, compile="aot_eager"))
    x, sigma, cond = torch.randn(2, *plain.latent_shape), torch.tensor([0.3, 0.9]), plain.encode(PROMPTS)
    for which in ("current", "reference"):
        expected = plain.velocity(x, sigma, cond, which)
        torch.testing.assert_close(compiled.velocity(x, sigma, cond, which), expected, rtol=1e-3, atol=1e-4)
    assert compiled.trained().keys() == plain.trained().keys()


def test_a_hub_base_that_cannot_be_had_says_so(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"model\.base: 'nobody/has-this' cannot be loaded"):
        Flux(base="nobody/has-this").load(torch.device("cpu"), 0)


def test_the_grid_is_the_familys_own_unless_the_run_names_a_shift(settings_of):
    def config(**sampling):
        return RunConfig.model_validate(
            {"model": settings_of("wan").model_dump(), "sampling": {"steps": 12} | sampling}
        )

    assert torch.equal(config().grid(), flow.grid(12, 3.0))
    assert torch.equal(config(shift=1.5).grid(), flow.grid(12, 1.5))
    assert torch.equal(RunConfig.model_validate({"sampling": {"steps": 12}}).grid(), flow.grid(12, 1.0))


def test_a_mistake_in_a_familys_settings_names_its_field():
    with pytest.raises(ValueError, match=r"^model\.lora: .*\nmodel\.frames: .*got 32"):
        parse({"model": {"family": "wan", "frames": 32, "lora": ""}})
