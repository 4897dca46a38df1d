"""Every family through the whole engine: docs/models.md names these tests, a cell of its table each."""

from pathlib import Path
from typing import ClassVar, Literal

import pytest
import torch

from backend import checkpoint
from backend.config import RunConfig
from backend.methods.settings import Settings
from backend.models import lora_file
from backend.train import Clock, Trainer
from tests.backend.models.tiny import PROMPTS

FAMILIES = ["sd3", "flux", "wan", "wan_image"]
METHODS = {
    "dgpo": {"name": "dgpo", "group_size": 3, "solver": "euler", "micro_batch": 8, "train_timesteps": 2},
    "branchgrpo": {"name": "branchgrpo", "split_steps": [0, 1], "micro_batch": 8},
}


class Brightness(Settings):
    """The mean level of a medium's frames."""

    differentiable: ClassVar[bool] = True
    name: Literal["brightness"] = "brightness"
    weight: float = 1.0

    def score(self, frames, prompts):
        return frames.flatten(1).double().mean(1)


def trainer_of(settings, method, folder):
    config = RunConfig.model_validate(
        {
            "model": settings.model_dump(),
            "method": METHODS[method],
            "sampling": {"steps": 3},
            "prompts": {"source": "shapes-train", "per_step": 2},
            "optimizer": {"learning_rate": 1e-2},
        }
    ).model_copy(update={"rewards": (Brightness(),)})
    policy = config.model.load(torch.device("cpu"), config.seed)
    return Trainer(config, folder, policy, emit=lambda event: None)


def step(trainer, number):
    rollout = trainer.roll_out(number, Clock())
    return trainer.update(rollout, trainer.config.method.credit(rollout, number), number, Clock())


def weights(trainer):
    return {name: value.detach().clone() for name, value in trainer.policy.trained().items()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_training_step_moves_the_adapters_and_nothing_else(settings_of, tmp_path, family, method):
    trainer = trainer_of(settings_of(family), method, tmp_path)
    policy, before = trainer.policy, weights(trainer)
    x, sigma = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9])
    base = policy.velocity(x, sigma, policy.encode(PROMPTS), "reference")
    metrics = step(trainer, 0)
    assert metrics["train/grad_norm"] > 0
    assert any(not torch.equal(value, before[name]) for name, value in policy.trained().items())
    assert torch.equal(policy.velocity(x, sigma, policy.encode(PROMPTS), "reference"), base)


@pytest.mark.parametrize("family", FAMILIES)
def test_two_steps_equal_one_step_a_checkpoint_and_one_step(settings_of, tmp_path, family):
    through = trainer_of(settings_of(family), "dgpo", tmp_path)
    step(through, 0), step(through, 1)
    first = trainer_of(settings_of(family), "dgpo", tmp_path)
    step(first, 0)
    folder = checkpoint.save(tmp_path, 1, first.policy, first.optimizer, None, "", first.memory)
    second = trainer_of(settings_of(family), "dgpo", tmp_path)
    start = checkpoint.resume(folder, second.policy, second.optimizer, None, second.memory)
    step(second, start)
    expected = weights(through)
    assert all(torch.equal(value, expected[name]) for name, value in weights(second).items())


@pytest.mark.parametrize("style", ["diffusers", "comfyui"])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_lora_gives_a_plain_pipeline_our_velocity(load, shaken, tmp_path, family, style):
    policy = shaken(load(family))
    file = tmp_path / "lora.safetensors"
    adapter = lora_file.adapter_notes(policy.module.peft_config["default"])
    lora_file.write(file, policy.trained(), adapter, {"step": "1"}, policy.settings.family, style)
    x, sigma = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9])
    ours = policy.velocity(x, sigma, policy.encode(PROMPTS))

    other = load(family, lora=str(file))  # through load_lora_weights of its pipeline, then fused
    cond = other.encode(PROMPTS)
    torch.testing.assert_close(other.velocity(x, sigma, cond, "reference"), ours, rtol=1e-4, atol=1e-5)
    base = load(family).velocity(x, sigma, cond, "reference")
    assert (ours - base).abs().max() > 1e-2

    loaded = load(family).settings.open()
    loaded.load_lora_weights(file, adapter_name="user")
    stored = [name for name, _ in loaded.transformer.named_parameters() if ".user." in name]
    assert len(stored) == len(policy.trained())


@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_adapters_are_fp32_on_a_bf16_base_and_change_nothing(load, shaken, family):
    policy = load(family, dtype="bf16")
    assert {value.dtype for value in policy.trained().values()} == {torch.float32}
    assert {p.dtype for name, p in policy.module.named_parameters() if "base_layer" in name} == {torch.bfloat16}
    assert {p.dtype for p in policy.pipeline.vae.parameters()} == {torch.float32}
    x, sigma, cond = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9]), policy.encode(PROMPTS)
    v = policy.velocity(x, sigma, cond)
    assert v.dtype == torch.float32
    assert torch.equal(v, policy.velocity(x, sigma, cond, "reference"))
    exact = load(family)
    close = exact.velocity(x, sigma, exact.encode(PROMPTS))
    assert (v - close).std() < 0.2 * close.std()
    shaken(policy).velocity(x, sigma, cond).square().mean().backward()
    assert all(value.grad.isfinite().all() for value in policy.trained().values() if value.grad is not None)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_checkpointing_changes_no_gradient(load, shaken, family):
    x, sigma = torch.randn(2, *load(family).latent_shape), torch.tensor([0.3, 0.9])
    found = []
    for on in (False, True):
        policy = shaken(load(family, gradient_checkpointing=on))
        policy.velocity(x, sigma, policy.encode(PROMPTS)).square().mean().backward()
        assert policy.module.is_gradient_checkpointing == on
        found.append({name: value.grad for name, value in policy.trained().items()})
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_text_encoders_are_not_loaded_for_prompts_in_the_cache(load, monkeypatch, tmp_path, family):
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    released = {"prompt_cache": True, "release_text_encoders": True}
    plain = load(family)
    policy = load(family, **released)
    assert getattr(policy.pipeline, "text_encoder", None) is None
    x, sigma = torch.randn(2, *plain.latent_shape), torch.tensor([0.3, 0.9])
    ours = policy.velocity(x, sigma, policy.encode(PROMPTS))
    torch.testing.assert_close(ours, plain.velocity(x, sigma, plain.encode(PROMPTS)), rtol=1e-4, atol=1e-5)
    # the prompts, but for flux the negative one, and for wan_image the first frame
    entries = {"flux": 2, "wan_image": 4}.get(family, 3)
    assert len(list(Path(tmp_path).rglob("*.safetensors"))) == entries

    policy.encode_ahead(["a blue square"])
    again = load(family, **released)
    again.encode([*PROMPTS, "a blue square"])
    monkeypatch.setattr(again._texts, "_load", None)  # not callable: a prompt that were not found would fail
    assert torch.equal(again.velocity(x, sigma, again.encode(PROMPTS)), ours)


@pytest.mark.parametrize("family", FAMILIES)
def test_negative_prompts_are_cached_as_any_text(load, monkeypatch, tmp_path, family):
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    guided = {"prompt_cache": True, "release_text_encoders": True, "guidance": 3.0}
    policy = load(family, **guided)
    policy.encode_ahead(PROMPTS, [None, "a blue square"])
    entries = len(list(Path(tmp_path).rglob("*.safetensors")))
    # the prompts, the common negative prompt and the second one's own; flux leads away from nothing
    assert entries == (2 if family == "flux" else 4)
    again = load(family, **guided)
    monkeypatch.setattr(again._texts, "_load", None)  # not callable: a text that were not found would fail
    own = again.condition(PROMPTS, [None, None], [None, "a blue square"])
    x, sigma = torch.randn(2, *again.latent_shape), torch.tensor([0.3, 0.9])
    moved = again.velocity(x, sigma, own) - again.velocity(x, sigma, again.encode(PROMPTS))
    moved = [bool(one > 1e-4) for one in moved.flatten(1).abs().amax(1)]
    assert moved == [False, family != "flux"]
    if family == "flux":
        return
    policy.encode_ahead(["a blue square"])
    assert torch.equal(own.negative_embeds[1], again.encode(["a blue square"]).embeds[0])
