"""The engine's view of a StableDiffusion3Pipeline against the pipeline itself."""

import pytest
import torch

from backend import checkpoint
from backend.evaluate import ode_plan
from backend.models.sd3 import SD3
from backend.models.weights import Ema, Full, Lora
from backend.rollout import sample

CPU = torch.device("cpu")
PROMPTS = ["a red circle", "three stars on black"]


@pytest.fixture(scope="module")
def full():
    return SD3(tuning=Full()).load(CPU, seed=0)


@pytest.fixture
def lora():
    return SD3(tuning=Lora(rank=4, alpha=8)).load(CPU, seed=0)


def shaken(policy):
    """The policy with trained weights moved, as after some updates."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in policy.trained().values():
            value.add_(0.05 * torch.randn(value.shape, generator=generator))
    return policy


@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_ode_rollout_is_the_pipelines_own_picture(full, guidance):
    policy = SD3(tuning=Full(), guidance=guidance).load(CPU, seed=0)
    steps = 5
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    noise = torch.stack([torch.randn(policy.latent_shape, generator=one) for one in generators])
    images = policy.pipeline(
        PROMPTS, num_inference_steps=steps, guidance_scale=guidance, latents=noise.clone(),
        height=64, width=64, max_sequence_length=0, output_type="pt",
    ).images  # fmt: skip
    # the scheduler's own sigmas end at 1/1000 before the final 0, so its grid is used here
    sigmas = policy.pipeline.scheduler.sigmas.double()
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    rollout = sample(policy, PROMPTS, ode_plan(sigmas), generators)
    frames = policy.decode(rollout.states[-1][:, 0])[:, 0]
    assert (frames - images).abs().max() < 1 / 255


@pytest.mark.parametrize("own", [["a blue square", "two stars on white"], [None, "a blue square"]])
def test_each_prompt_is_led_away_from_its_own_negative_prompt_as_in_the_pipeline(own):
    policy = SD3(tuning=Full(), guidance=3.0).load(CPU, seed=0)
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    noise = torch.stack([torch.randn(policy.latent_shape, generator=one) for one in generators])
    images = policy.pipeline(
        PROMPTS, negative_prompt=[one or "" for one in own], num_inference_steps=5, guidance_scale=3.0,
        latents=noise.clone(), height=64, width=64, max_sequence_length=0, output_type="pt",
    ).images  # fmt: skip
    plan = ode_plan(policy.pipeline.scheduler.sigmas.double())
    found = []
    for negative_prompts in (own, [None, None]):
        generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
        cond = policy.condition(PROMPTS, [None, None], negative_prompts)
        found.append(policy.decode(sample(policy, PROMPTS, plan, generators, cond).states[-1][:, 0])[:, 0])
    assert (found[0] - images).abs().max() < 1 / 255
    moved = (found[0] - found[1]).abs().amax((1, 2, 3))
    assert [bool(one > 10 / 255) for one in moved] == [one is not None for one in own]


def test_guidance_leads_away_from_the_empty_prompt_where_none_has_its_own():
    policy = SD3(tuning=Full(), guidance=3.0).load(CPU, seed=0)
    x, sigma = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9])
    embeds, _, pooled, _ = policy.pipeline.encode_prompt(
        [*PROMPTS, ""], None, None, device=CPU, do_classifier_free_guidance=False, max_sequence_length=0
    )
    both = torch.tensor([2, 2, 0, 1])
    without, with_prompt = policy.module(
        hidden_states=torch.cat([x, x]), encoder_hidden_states=embeds[both], pooled_projections=pooled[both],
        timestep=torch.cat([sigma, sigma]) * 1000,
    ).sample.chunk(2)  # fmt: skip
    expected = without + 3.0 * (with_prompt - without)
    for cond in (policy.encode(PROMPTS), policy.condition(PROMPTS, [None, None], [None, None])):
        assert cond.negative_embeds.shape[0] == 1
        assert torch.equal(policy.velocity(x, sigma, cond), expected)


def test_without_guidance_negative_prompts_are_not_encoded(full):
    cond, plain = full.condition(PROMPTS, [None, None], ["a blue square", None]), full.encode(PROMPTS)
    assert torch.equal(cond.negative_embeds, plain.negative_embeds)
    assert torch.equal(cond.negative_pooled, plain.negative_pooled)


def test_velocity_equals_the_transformers_output(full):
    x, sigma = torch.randn(2, *full.latent_shape, generator=torch.Generator().manual_seed(0)), torch.tensor([0.3, 0.9])
    cond = full.encode(PROMPTS)
    embeds, _, pooled, _ = full.pipeline.encode_prompt(
        PROMPTS, None, None, device=CPU, do_classifier_free_guidance=False, max_sequence_length=0
    )
    direct = full.module(
        hidden_states=x, encoder_hidden_states=embeds, pooled_projections=pooled, timestep=sigma * 1000
    ).sample
    torch.testing.assert_close(full.velocity(x, sigma, cond), direct, rtol=0, atol=1e-5)


def test_fresh_lora_changes_nothing_and_reference_stays_the_base(full, lora):
    x, sigma = torch.randn(2, *full.latent_shape), torch.tensor([0.3, 0.9])
    base = full.velocity(x, sigma, full.encode(PROMPTS))
    cond = lora.encode(PROMPTS)
    torch.testing.assert_close(lora.velocity(x, sigma, cond), base, rtol=0, atol=1e-6)
    shaken(lora)
    assert (lora.velocity(x, sigma, cond) - base).abs().max() > 1e-3
    torch.testing.assert_close(lora.velocity(x, sigma, cond, "reference"), base, rtol=0, atol=1e-6)


def test_reference_of_full_tuning_stays_the_base():
    policy = SD3(tuning=Full()).load(CPU, seed=0)
    x, sigma, cond = torch.randn(1, *policy.latent_shape), torch.tensor([0.5]), policy.encode(["a star"])
    base = policy.velocity(x, sigma, cond)
    shaken(policy)
    assert (policy.velocity(x, sigma, cond) - base).abs().max() > 1e-3
    assert torch.equal(policy.velocity(x, sigma, cond, "reference"), base)
    with pytest.raises(ValueError, match="no 'old' weights"):
        policy.velocity(x, sigma, cond, "old")


def test_saved_lora_loads_into_a_plain_pipeline(lora, tmp_path):
    shaken(lora)
    optimizer = torch.optim.AdamW(lora.tuned.parameters())
    folder = checkpoint.save(tmp_path, 1, lora, optimizer, None, "name: x\n")
    pipeline = SD3().open()
    pipeline.load_lora_weights(folder / "pytorch_lora_weights.safetensors")
    x, sigma, cond = torch.randn(1, *lora.latent_shape), torch.tensor([0.5]), lora.encode(["a star"])
    theirs = pipeline.transformer(
        hidden_states=x, encoder_hidden_states=cond.embeds, pooled_projections=cond.pooled, timestep=sigma * 1000
    ).sample
    torch.testing.assert_close(theirs, lora.velocity(x, sigma, cond), rtol=0, atol=1e-5)


def test_weights_that_are_zero_or_not_finite_are_never_saved(lora, tmp_path):
    optimizer = torch.optim.AdamW(lora.tuned.parameters())
    with torch.no_grad():
        for value in lora.trained().values():
            value.zero_()
    with pytest.raises(ValueError, match="all trained weights are zero"):
        checkpoint.save(tmp_path, 1, lora, optimizer, None, "")
    with torch.no_grad():
        next(iter(lora.trained().values())).fill_(float("inf"))
    with pytest.raises(ValueError, match="not finite"):
        checkpoint.save(tmp_path, 1, lora, optimizer, None, "")
    assert checkpoint.latest(tmp_path) is None


def test_average_follows_and_the_trained_weights_come_back(lora):
    name, value = next(iter(lora.trained().items()))
    before = value.detach().clone()
    ema = Ema(lora.module, decay=0.75)
    with torch.no_grad():
        value.add_(4.0)
    ema.update()
    with ema.in_place():
        # 0.75 * before + 0.25 * (before + 4) = before + 1
        torch.testing.assert_close(lora.trained()[name].detach(), before + 1)
    assert torch.equal(lora.trained()[name].detach(), before + 4)


def test_a_folder_without_a_pipeline_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no model_index"):
        SD3(base=str(tmp_path)).load(CPU, seed=0)


def test_bundle_is_small():
    from backend.shapes.bundle import BASE

    assert sum(path.stat().st_size for path in BASE.rglob("*") if path.is_file()) < 25e6


@pytest.mark.parametrize(("settings", "shape"), [
    ({}, (8, 8, 8)),
    ({"resolution": 32}, (8, 4, 4)),
    ({"base": "stabilityai/stable-diffusion-3.5-medium"}, (16, 128, 128)),
    ({"base": "stabilityai/stable-diffusion-3.5-medium", "resolution": 512}, (16, 64, 64)),
])  # fmt: skip
def test_the_latent_shape_is_known_before_loading(settings, shape):
    assert SD3(**settings).latent_shape() == shape


def test_another_resolution_is_sampled_and_decoded():
    settings = SD3(tuning=Full(), resolution=32)
    policy = settings.load(CPU, seed=0)
    assert policy.latent_shape == settings.latent_shape()
    sigmas = torch.linspace(1, 0, 3, dtype=torch.float64)
    rollout = sample(policy, PROMPTS, ode_plan(sigmas), [torch.Generator().manual_seed(seed) for seed in (3, 4)])
    assert policy.decode(rollout.states[-1][:, 0]).shape == (2, 1, 3, 32, 32)


def test_a_resolution_that_patches_cannot_fill_is_refused():
    with pytest.raises(ValueError, match="multiple of 16"):
        SD3(resolution=500)


def test_encoded_pictures_decode_to_nearly_themselves(full):
    generators = [torch.Generator().manual_seed(seed) for seed in range(4)]
    sampled = sample(full, [*PROMPTS, *PROMPTS], ode_plan(torch.linspace(1, 0, 7).double()), generators).states[-1][
        :, 0
    ]
    with torch.no_grad():
        frames = full.decode(sampled)
        latents = full.encode_frames(frames)
        again = full.decode(latents)
    assert latents.shape == (4, *full.latent_shape)
    # about 35 dB on samples of the bundled base (docs/votes.md): an error of 0.017, and of 0.11 in latents of std 0.95
    assert (again - frames).square().mean().sqrt() < 0.03
    assert (latents - sampled).square().mean().sqrt() < 0.25


def test_latents_are_scaled_as_the_transformer_sees_them(full):
    frames = torch.rand(2, 1, 3, 64, 64, generator=torch.Generator().manual_seed(3))
    vae = full.pipeline.vae
    means = vae.encode(frames[:, 0] * 2 - 1).latent_dist.mean
    expected = (means - vae.config.shift_factor) * vae.config.scaling_factor
    assert vae.config.scaling_factor != 1
    torch.testing.assert_close(full.encode_frames(frames), expected)


def test_pictures_of_another_size_are_refused(full):
    with pytest.raises(ValueError, match=r"not one picture of 3 x 64 x 64"):
        full.encode_frames(torch.zeros(1, 1, 3, 32, 32))
