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


@pytest.mark.parametrize("own", [["white", "a blue square"], [None, "white"]])
def test_each_prompt_is_led_away_from_its_own_negative_prompt_as_in_the_pipeline(load, own):
    policy = load("wan", guidance=4.5, negative_prompt="black")
    videos = policy.pipeline(
        PROMPTS, negative_prompt=[one or "black" for one in own], num_inference_steps=4, guidance_scale=4.5,
        generator=generators(3, 4), **SIZE,
    ).frames  # fmt: skip
    plan, found = ode_plan(policy.pipeline.scheduler.sigmas.double()), []
    for negative_prompts in (own, [None, None]):
        cond = policy.condition(PROMPTS, [None, None], negative_prompts)
        found.append(policy.decode(sample(policy, PROMPTS, plan, generators(3, 4), cond).states[-1][:, 0]))
    assert (found[0] - videos).abs().max() < 1 / 255
    moved = (found[0] - found[1]).abs().amax((1, 2, 3, 4))
    assert [bool(one > 4 / 255) for one in moved] == [one is not None for one in own]


def test_what_a_prompt_is_led_away_from_follows_its_row(load, folders):
    policy = load("wan_image", negative_prompt="black")
    cond = policy.condition(PROMPTS, [None, None], ["white", None])
    assert torch.equal(cond.negative_embeds, policy.encode(["white", "black"]).embeds)
    taken = cond.take(torch.tensor([1, 1, 0]))
    assert torch.equal(taken.negative_embeds, cond.negative_embeds[[1, 1, 0]])
    x, sigma = torch.randn(3, *policy.latent_shape), torch.tensor([0.3, 0.9, 0.5])
    alone = [policy.condition([PROMPTS[i]], [None], [own]) for i, own in ((1, None), (1, None), (0, "white"))]
    each = [policy.velocity(x[i : i + 1], sigma[i : i + 1], one) for i, one in enumerate(alone)]
    torch.testing.assert_close(policy.velocity(x, sigma, taken), torch.cat(each), rtol=1e-4, atol=1e-5)
    four = alone[2].take(torch.zeros(4, dtype=torch.long))  # of one prompt, for as many latents as are asked for
    assert policy.velocity(x[:1].expand(4, *policy.latent_shape), sigma[:1].expand(4), four).shape[0] == 4


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


def save_picture(at, colour):
    from PIL import Image

    picture = Image.linear_gradient("L").resize((48, 32))
    Image.merge("RGB", [picture if name in colour else picture.point(lambda _: 30) for name in "rgb"]).save(at)
    return str(at)


def test_each_prompt_starts_from_its_own_first_frame_as_in_the_pipeline(load, tmp_path):
    from PIL import Image

    policy = load("wan_image", first_frame=None)
    files = [save_picture(tmp_path / "red.png", "r"), save_picture(tmp_path / "blue.png", "gb")]
    cond = policy.condition(PROMPTS, files)
    own = [
        policy.pipeline(
            Image.open(files[i]), prompt_embeds=cond.embeds[i : i + 1], negative_prompt_embeds=cond.negative_embeds,
            num_inference_steps=4, guidance_scale=4.5, generator=generators(3 + i)[0], **SIZE,
        ).frames[0]
        for i in range(2)
    ]  # fmt: skip
    rollout = sample(policy, PROMPTS, ode_plan(policy.pipeline.scheduler.sigmas.double()), generators(3, 4), cond)
    frames = policy.decode(rollout.states[-1][:, 0])
    assert (frames - torch.stack(own)).abs().max() < 1 / 255
    swapped = sample(policy, PROMPTS, rollout.plan, generators(3, 4), policy.condition(PROMPTS, files[::-1]))
    assert (swapped.states[-1] - rollout.states[-1]).abs().max() > 1e-2


def test_a_prompt_without_its_own_starts_from_the_settings_first_frame(load, folders, tmp_path):
    policy = load("wan_image")
    red = save_picture(tmp_path / "red.png", "r")
    mixed, all_same = policy.condition(PROMPTS, [red, None]), policy.encode(PROMPTS)
    torch.testing.assert_close(mixed.first_frame[1], all_same.first_frame[0], rtol=0, atol=0)
    torch.testing.assert_close(mixed.image_embeds[1], all_same.image_embeds[1], rtol=0, atol=0)
    assert not torch.equal(mixed.first_frame[0], mixed.first_frame[1])
    taken = mixed.take(torch.tensor([1, 1, 0]))
    assert torch.equal(taken.first_frame, mixed.first_frame[[1, 1, 0]])


def test_the_cache_of_first_frames_goes_by_the_pictures_content(load, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    file = save_picture(tmp_path / "frame.png", "r")
    (tmp_path / "copy.png").write_bytes((tmp_path / "frame.png").read_bytes())

    def kept():
        return len(list((tmp_path / "cache").rglob("*.safetensors")))

    policy = load("wan_image", prompt_cache=True)
    red = policy.condition(PROMPTS[:1], [file])
    before = kept()
    policy.condition(PROMPTS[:1], [str(tmp_path / "copy.png")])
    assert kept() == before  # a copy is the same picture
    save_picture(file, "gb")
    blue = policy.condition(PROMPTS[:1], [file])
    assert kept() == before + 1
    assert (red.first_frame - blue.first_frame).abs().max() > 0.1
    again = load("wan_image", prompt_cache=True)
    again.pipeline.vae = None  # what comes from the disk needs no autoencoder
    assert torch.equal(again.condition(PROMPTS[:1], [file]).first_frame, blue.first_frame)
    # at another size the same picture is another entry
    load("wan_image", prompt_cache=True, frames=9).condition(PROMPTS[:1], [file])
    assert kept() == before + 2


def test_a_first_frame_is_asked_for_where_it_is_used(load, folders):
    with pytest.raises(ValueError, match=r"model\.first_frame: .*'a red circle' has none; give one"):
        load("wan_image", first_frame=None).encode(PROMPTS)
    with pytest.raises(ValueError, match=r"model\.first_frame: .*leave it empty"):
        load("wan", first_frame=folders.picture)
    with pytest.raises(ValueError, match="does not exist; give a picture"):
        load("wan_image", first_frame="nowhere.png").encode(PROMPTS)


def test_frames_of_another_size_are_refused(load):
    with pytest.raises(ValueError, match=r"not the \[5, 3, 32, 48\]"):
        load("wan").encode_frames(torch.zeros(1, 1, 3, 32, 48))


def test_latent_of_a_config_that_leaves_out_the_usual_factors(tmp_path):
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "config.json").write_text('{"_class_name": "AutoencoderKLWan", "z_dim": 16}')
    assert Wan(base=str(tmp_path), frames=33, height=240, width=416).latent_shape() == (16, 9, 30, 52)
