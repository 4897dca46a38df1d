"""The bundled video base is a WanPipeline that diffusers loads, small, and what the code's architecture says."""

import torch
from diffusers import WanPipeline
from safetensors import safe_open
from transformers import AutoTokenizer

from backend.config import load, preset_path
from backend.evaluate import ode_plan
from backend.models.wan import Wan
from backend.moving.bundle import BASE, CHANNELS, TEXT_LENGTH, build_modules
from backend.moving.prompts import LISTS
from backend.rollout import sample

SIZE = {"height": 64, "width": 64, "frames": 9, "dtype": "fp32", "prompt_cache": False, "guidance": 1.0}
SIZE |= {"max_text_tokens": TEXT_LENGTH}


def test_bundle_is_at_most_25_mb():
    assert sum(file.stat().st_size for file in BASE.rglob("*") if file.is_file()) <= 25e6


def test_bundled_vocabulary_is_the_codes_own():
    assert AutoTokenizer.from_pretrained(BASE / "tokenizer").get_vocab() == build_modules().tokenizer.get_vocab()


def test_bundled_modules_have_the_codes_shapes():
    modules = build_modules()
    for name, module in (("transformer", modules.transformer), ("vae", modules.vae)):
        with safe_open(BASE / name / "diffusion_pytorch_model.safetensors", "pt") as stored:
            found = {key: tuple(stored.get_slice(key).get_shape()) for key in stored.keys()}  # noqa: SIM118
        assert found == {key: tuple(value.shape) for key, value in module.state_dict().items()}


def test_pipeline_makes_the_video_that_the_engine_makes():
    prompt = LISTS.test[60].text
    policy = Wan(base="moving", **SIZE).load(torch.device("cpu"), 0)
    pipeline = WanPipeline.from_pretrained(BASE)
    pipeline.set_progress_bar_config(disable=True)
    made = pipeline(
        prompt, height=64, width=64, num_frames=9, num_inference_steps=6, guidance_scale=1.0, output_type="pt",
        generator=torch.Generator().manual_seed(3), max_sequence_length=TEXT_LENGTH,
    ).frames[0]  # fmt: skip
    plan = ode_plan(pipeline.scheduler.sigmas.double())
    rollout = sample(policy, [prompt], plan, [torch.Generator().manual_seed(3)])
    assert made.shape == (9, 3, 64, 64)
    assert (policy.decode(rollout.states[-1][:, 0])[0] - made).abs().max() < 1 / 255


def test_preset_takes_the_base_and_a_shape_of_latents():
    config = load(preset_path("moving-dgpo"))
    assert config.model.latent_shape() == (CHANNELS, 5, 8, 8)
