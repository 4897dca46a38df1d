"""The engine's view of a FluxPipeline against the pipeline itself."""

import math

import pytest
import torch

from backend import flow
from backend.evaluate import ode_plan
from backend.models.flux import Flux, pack, positions, unpack
from backend.rollout import sample
from tests.backend.models.tiny import PROMPTS


def generators():
    return [torch.Generator().manual_seed(seed) for seed in (3, 4)]


def test_ode_rollout_on_the_own_grid_is_the_pipelines_own_picture(load):
    policy = load("flux", guidance=2.5)
    images = policy.pipeline(
        PROMPTS, num_inference_steps=5, guidance_scale=2.5, generator=generators(), height=16, width=16,
        max_sequence_length=12, output_type="pt",
    ).images  # fmt: skip
    sigmas = flow.grid(5, policy.settings.time_shift())
    torch.testing.assert_close(sigmas.float(), policy.pipeline.scheduler.sigmas, rtol=0, atol=1e-6)
    rollout = sample(policy, PROMPTS, ode_plan(sigmas), generators())
    frames = policy.decode(rollout.states[-1][:, 0])
    assert frames.shape == (2, 1, 3, 16, 16)
    assert (frames[:, 0] - images).abs().max() < 1 / 255
    assert images.std() > 0.02


def test_velocity_equals_the_transformers_output(load):
    policy = load("flux", guidance=3.5)
    x, sigma = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9])
    embeds, pooled, text_ids = policy.pipeline.encode_prompt(PROMPTS, max_sequence_length=12)
    direct = policy.module(
        hidden_states=policy.pipeline._pack_latents(x, 2, 4, 8, 8), timestep=sigma, guidance=torch.full((2,), 3.5),
        pooled_projections=pooled, encoder_hidden_states=embeds, txt_ids=text_ids,
        img_ids=policy.pipeline._prepare_latent_image_ids(2, 4, 4, "cpu", torch.float32),
    ).sample  # fmt: skip
    expected = policy.pipeline._unpack_latents(direct, 16, 16, 2)
    torch.testing.assert_close(policy.velocity(x, sigma, policy.encode(PROMPTS)), expected, rtol=0, atol=1e-6)


def test_packing_is_undone_and_is_the_pipelines(load):
    pipeline = load("flux").pipeline
    x = torch.arange(2 * 4 * 6 * 8.0).view(2, 4, 6, 8)
    assert torch.equal(pack(x), pipeline._pack_latents(x, 2, 4, 6, 8))
    assert torch.equal(unpack(pack(x), 3, 4), x)
    assert torch.equal(positions(3, 4).float(), pipeline._prepare_latent_image_ids(1, 3, 4, "cpu", torch.float32))


def test_embedded_guidance_is_kept_where_methods_ask_for_no_second_pass(load):
    policy = load("flux", guidance=3.5)
    x, sigma, cond = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9]), policy.encode(PROMPTS)
    own = policy.velocity(x, sigma, cond)
    assert torch.equal(policy.velocity(x, sigma, cond, guidance=1), own)
    assert not torch.equal(load("flux", guidance=1.0).velocity(x, sigma, cond), own)
    with pytest.raises(ValueError, match=r"not guided by a second pass, got 4\.5"):
        policy.velocity(x, sigma, cond, guidance=4.5)
    assert policy.settings.passes() == 1


@pytest.mark.parametrize(("resolution", "mu"), [(256, 0.5), (1024, 1.15), (512, 0.5 + 0.65 * 768 / 3840)])
def test_the_time_shift_grows_with_the_size(resolution, mu):
    # (resolution / 16)^2 tokens: 256 at 256 pixels, 1024 at 512, 4096 at 1024; a base that is not on this machine
    settings = Flux(base="black-forest-labs/FLUX.1-dev", resolution=resolution)
    assert settings.time_shift() == pytest.approx(math.exp(mu))


def test_the_latent_shape_is_known_before_loading():
    assert Flux(base="black-forest-labs/FLUX.1-dev", resolution=720).latent_shape() == (16, 90, 90)


def test_decoding_scales_as_flux_does(load):
    policy = load("flux")
    x0 = torch.randn(1, *policy.latent_shape)
    expected = policy.pipeline.vae.decode(x0 / 0.3611 + 0.1159).sample / 2 + 0.5
    torch.testing.assert_close(policy.decode(x0)[:, 0], expected.clamp(0, 1))


def test_encoded_frames_are_scaled_latents(load):
    policy = load("flux")
    frames = torch.rand(2, 1, 3, 16, 16)
    means = policy.pipeline.vae.encode(frames[:, 0] * 2 - 1).latent_dist.mean
    torch.testing.assert_close(policy.encode_frames(frames), (means - 0.1159) * 0.3611)
    with pytest.raises(ValueError, match="not one picture of 3 x 16 x 16"):
        policy.encode_frames(torch.zeros(1, 1, 3, 32, 32))
