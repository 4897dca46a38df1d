"""The engine's view of Wan's pipelines against the pipelines themselves."""

import pytest
import torch

from backend.evaluate import ode_plan
from backend.models.wan import Wan
from backend.rollout import sample
from tests.backend.models.tiny import PROMPTS

SIZE = {"height": 32, "width": 48, "num_frames": 5, "max_sequence_length": 12, "output_type": "pt"}


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


@pytest.mark.parametrize("guidance", [1.0, 4.5])
def test_ode_rollout_is_the_pipelines_own_video(load, guidance):
    policy = load("wan", guidance=guidance)
    videos = policy.pipeline(
        PROMPTS, num_inference_steps=4, guidance_scale=guidance, generator=generators(3, 4), **SIZE
    ).frames
    # the scheduler's own sigmas end at 1/1000 before the final 0, so its grid is used here
    rollout = sample(policy, PROMPTS, ode_plan(policy.pipeline.scheduler.sigmas.double()), generators(3, 4))
    frames = policy.decode(rollout.states[-1][:, 0])
    assert frames.shape == (2, 5, 3, 32, 48)
    assert (frames - videos).abs().max() < 1 / 255
    assert videos.std() > 0.02


@pytest.mark.parametrize("guidance", [1.0, 4.5])
def test_image_to_video_rollout_is_the_pipelines_own_video(load, folders, guidance):
    from PIL import Image

    policy = load("wan_image", guidance=guidance)
    # its encode_prompt needs ftfy, which may be absent; the texts are plain, so cleaning them changes nothing
    cond = policy.encode(PROMPTS[:1])
    video = policy.pipeline(
        Image.open(folders.picture), prompt_embeds=cond.embeds, negative_prompt_embeds=cond.negative_embeds,
        num_inference_steps=4, guidance_scale=guidance, generator=generators(3)[0], **SIZE,
    ).frames  # fmt: skip
    rollout = sample(policy, PROMPTS[:1], ode_plan(policy.pipeline.scheduler.sigmas.double()), generators(3))
    frames = policy.decode(rollout.states[-1][:, 0])
    assert (frames - video).abs().max() < 1 / 255


def test_the_first_frame_changes_the_field(load, folders, tmp_path):
    from PIL import Image

    Image.new("RGB", (48, 32), "red").save(tmp_path / "red.png")
    policy, other = load("wan_image"), load("wan_image", first_frame=str(tmp_path / "red.png"))
    x, sigma = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9])
    difference = policy.velocity(x, sigma, policy.encode(PROMPTS)) - other.velocity(x, sigma, other.encode(PROMPTS))
    assert difference.abs().max() > 1e-3


def test_velocity_equals_the_transformers_output(load):
    policy = load("wan", guidance=1.0)
    x, sigma = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9])
    embeds, _ = policy.pipeline.encode_prompt(PROMPTS, do_classifier_free_guidance=False, max_sequence_length=12)
    direct = policy.module(hidden_states=x, timestep=sigma * 1000, encoder_hidden_states=embeds).sample
    torch.testing.assert_close(policy.velocity(x, sigma, policy.encode(PROMPTS)), direct, rtol=0, atol=1e-6)


def test_guidance_leads_away_from_the_negative_prompt(load):
    policy = load("wan", guidance=3.0, negative_prompt="black")
    x, sigma = torch.randn(2, *policy.latent_shape), torch.tensor([0.3, 0.9])
    with_prompt = policy.velocity(x, sigma, policy.encode(PROMPTS), guidance=1)
    negative = policy.velocity(x, sigma, policy.encode(["black", "black"]), guidance=1)
    expected = negative + 3.0 * (with_prompt - negative)
    torch.testing.assert_close(policy.velocity(x, sigma, policy.encode(PROMPTS)), expected, rtol=1e-4, atol=1e-5)


def test_decoding_undoes_each_channels_scaling(load):
    policy = load("wan")
    x0 = torch.randn(2, *policy.latent_shape)
    std, mean = torch.tensor([2.8, 1.4, 2.3, 0.9]), torch.tensor([-0.7, 0.1, 0.4, -0.2])
    z = torch.stack([x0[:, c] * std[c] + mean[c] for c in range(4)], dim=1)
    expected = (policy.pipeline.vae.decode(z).sample / 2 + 0.5).clamp(0, 1)
    torch.testing.assert_close(policy.decode(x0), expected.permute(0, 2, 1, 3, 4), rtol=0, atol=1e-4)
    frames = torch.rand(2, 5, 3, 32, 48)
    means = policy.pipeline.vae.encode(frames.permute(0, 2, 1, 3, 4) * 2 - 1).latent_dist.mean
    scaled = torch.stack([(means[:, c] - mean[c]) / std[c] for c in range(4)], dim=1)
    torch.testing.assert_close(policy.encode_frames(frames), scaled)


def test_the_latent_shape_is_known_before_loading():
    # 33 frames are (33 - 1) / 4 + 1 = 9 in the latent
    settings = Wan(base="Wan-AI/Wan2.1-T2V-1.3B-Diffusers", height=240, width=416, frames=33)
    assert (settings.latent_shape(), settings.time_shift(), settings.passes()) == ((16, 9, 30, 52), 3.0, 2)


def test_other_numbers_of_frames_are_refused():
    with pytest.raises(ValueError, match=r"4 k \+ 1 frames, got 32; use 33 or 37"):
        Wan(frames=32)


def test_a_first_frame_is_asked_for_where_it_is_used(load, folders):
    with pytest.raises(ValueError, match=r"model\.first_frame: .*give a picture"):
        load("wan_image", first_frame=None)
    with pytest.raises(ValueError, match=r"model\.first_frame: .*leave it empty"):
        load("wan", first_frame=folders.picture)
    with pytest.raises(ValueError, match="does not exist; give a picture"):
        load("wan_image", first_frame="nowhere.png")


def test_frames_of_another_size_are_refused(load):
    with pytest.raises(ValueError, match=r"not the \[5, 3, 32, 48\]"):
        load("wan").encode_frames(torch.zeros(1, 1, 3, 32, 48))
