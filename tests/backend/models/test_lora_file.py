import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from backend.models import lora_file

ADAPTER = {"r": 2, "lora_alpha": 6, "target_modules": ["attn1.to_q"]}
A = torch.arange(8.0).view(2, 4)
B = torch.arange(6.0).view(3, 2)
TRAINED = {
    "blocks.0.attn1.to_q.lora_A.default.weight": A,
    "blocks.0.attn1.to_q.lora_B.default.weight": B,
    "blocks.1.ffn.net.0.proj.lora_A.default.weight": A + 1,
    "blocks.1.ffn.net.0.proj.lora_B.default.weight": B + 1,
}


def written(tmp_path, family, style):
    file = tmp_path / "lora.safetensors"
    lora_file.write(file, TRAINED, ADAPTER, {"base": "b", "step": "7"}, family, style)
    with safe_open(file, framework="pt") as opened:
        return load_file(file), opened.metadata()


def test_diffusers_style_keeps_factors_and_tells_their_scale(tmp_path):
    stored, notes = written(tmp_path, "flux", "diffusers")
    assert sorted(stored) == [
        "transformer.blocks.0.attn1.to_q.lora_A.weight",
        "transformer.blocks.0.attn1.to_q.lora_B.weight",
        "transformer.blocks.1.ffn.net.0.proj.lora_A.weight",
        "transformer.blocks.1.ffn.net.0.proj.lora_B.weight",
    ]
    assert torch.equal(stored["transformer.blocks.0.attn1.to_q.lora_B.weight"], B)
    assert (notes["base"], notes["step"], notes["rank"], notes["alpha"]) == ("b", "7", "2", "6")
    assert json.loads(notes["lora_adapter_metadata"])["transformer.lora_alpha"] == 6
    assert lora_file.read_adapter(notes) == ADAPTER


def test_comfyui_style_has_wans_own_names_and_the_scale_in_b(tmp_path):
    stored, notes = written(tmp_path, "wan", "comfyui")
    assert sorted(stored) == [
        "diffusion_model.blocks.0.self_attn.q.lora_A.weight",
        "diffusion_model.blocks.0.self_attn.q.lora_B.weight",
        "diffusion_model.blocks.1.ffn.0.lora_A.weight",
        "diffusion_model.blocks.1.ffn.0.lora_B.weight",
    ]
    assert torch.equal(stored["diffusion_model.blocks.0.self_attn.q.lora_A.weight"], A)
    assert torch.equal(stored["diffusion_model.blocks.0.self_attn.q.lora_B.weight"], B * 3)  # alpha / rank = 6 / 2
    assert (notes["rank"], notes["alpha"], "lora_adapter_metadata" in notes) == ("2", "2", False)


def test_comfyui_style_keeps_the_names_that_it_maps_itself(tmp_path):
    stored, _ = written(tmp_path, "flux", "comfyui")
    assert torch.equal(stored["transformer.blocks.0.attn1.to_q.lora_B.weight"], B * 3)


def test_what_cannot_be_named_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"proj_out\.weight is no adapter's weight"):
        lora_file.write(tmp_path / "x", {"proj_out.weight": A}, ADAPTER, {}, "sd3")
    odd = {"proj_out.lora_A.default.weight": A}
    with pytest.raises(ValueError, match="proj_out has no name in ComfyUI's style"):
        lora_file.write(tmp_path / "x", odd, ADAPTER, {}, "wan", "comfyui")
