"""A small VideoReward of random weights in the folders of the release, and its outputs computed another way.

The weights are drawn in the model that the release trains, Qwen2-VL wrapped by peft, and saved by transformers 4's
names. Outputs come from that wrapped model: LoRA stays beside the weights, and patches are cut in loops.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.rewards import preprocessing
from backend.rewards.videoalign_prompt import TOKENS

OWN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>"]
INFERENCE = {"VQ_mean": 3.6757, "VQ_std": 2.2476, "MQ_mean": 1.1646, "MQ_std": 1.3811, "TA_mean": -0.5, "TA_std": 0.25}
QUESTION = "How good is it? <|VQ_reward|> Does it move well? <|MQ_reward|>\nShows it {text_prompt}? <|TA_reward|>\n"
RANK, ALPHA, MAX_PIXELS = 4, 12, 200704
PATCH, HIDDEN = 14, 32


@dataclass(frozen=True)
class Tiny:
    """folder: of the release; base: of Qwen2-VL; model: through peft; head [3, D] or [1, D]."""

    folder: Path
    base: Path
    model: Any
    head: Tensor
    tokenizer: Any

    @torch.no_grad()
    def raw(self, frames: Tensor, prompt: str) -> list[float]:
        """Frames [K, 3, h, w] of a size that is not changed -> outputs before they are standardised."""
        patches, grid = patched(preprocessing.normalise(frames))
        pads = "<|video_pad|>" * (len(patches) // 4)
        text = (
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
            f"<|vision_start|>{pads}<|vision_end|>{QUESTION.replace('{text_prompt}', prompt)}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        ids = self.tokenizer(text, return_tensors="pt").input_ids
        body = self.model.base_model.model.model
        embeds = body.language_model.embed_tokens(ids)
        embeds[ids == self.tokenizer.convert_tokens_to_ids("<|video_pad|>")] = body.visual(
            patches, grid_thw=torch.tensor([grid])
        ).pooler_output
        hidden = body.language_model(inputs_embeds=embeds).last_hidden_state[0]
        places = [ids[0].tolist().index(one) for one in self.tokenizer.convert_tokens_to_ids(list(TOKENS))]
        return [float(hidden[place] @ row) for place, row in zip(places, self.head.expand(3, -1), strict=True)]

    def scores(self, frames: Tensor, prompt: str) -> list[float]:
        """VQ, MQ and TA, standardised by the numbers of model_config.json."""
        names = ("VQ", "MQ", "TA")
        raw = self.raw(frames, prompt)
        return [
            (value - INFERENCE[f"{name}_mean"]) / INFERENCE[f"{name}_std"]
            for name, value in zip(names, raw, strict=True)
        ]


def patched(frames: Tensor) -> tuple[Tensor, list[int]]:
    """[K, 3, h, w] -> patches of 2 frames x 14 x 14, four after four as they are merged, and the grid."""
    num_frames, _, height, width = frames.shape
    grid = [num_frames // 2, height // PATCH, width // PATCH]
    rows = []
    for time in range(grid[0]):
        for top in range(0, grid[1], 2):
            for left in range(0, grid[2], 2):
                for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
                    y, x = (top + down) * PATCH, (left + right) * PATCH
                    cut = frames[2 * time : 2 * time + 2, :, y : y + PATCH, x : x + PATCH]
                    rows.append(cut.transpose(0, 1).flatten())
    return torch.stack(rows), grid


def saved_base(folder: Path) -> Any:
    """Qwen2-VL's configuration, with room for more tokens as the real one has, and a tokenizer of bytes."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer, Qwen2VLConfig

    vocab = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=vocab, merges=[])
    tokenizer.add_tokens(OWN, special_tokens=True)
    tokenizer.save_pretrained(folder)
    text = {
        "vocab_size": 320,
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4},
    }
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": HIDDEN, "num_heads": 2, "mlp_ratio": 2}
    video = tokenizer.convert_tokens_to_ids("<|video_pad|>")
    Qwen2VLConfig(text_config=text, vision_config=vision, video_token_id=video).save_pretrained(folder)
    return tokenizer


def settings(**sections: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """model_config.json as released, with some values replaced."""
    released: dict[str, dict[str, Any]] = {
        "data_config": {
            "max_frame_pixels": MAX_PIXELS,
            "num_frames": None,
            "fps": 2.0,
            "eval_dim": ["VQ", "MQ", "TA"],
            "prompt_template_type": "detailed_special",
            "sample_type": "uniform",
        },
        "model_config": {"output_dim": 1, "use_special_tokens": True, "reward_token": "special"},
        "peft_lora_config": {"lora_enable": True, "lora_r": RANK, "lora_alpha": ALPHA, "use_rslora": False},
        "inference_config": INFERENCE,
    }
    return {name: values | sections.get(name, {}) for name, values in released.items()}


def saved(folder: Path, num_heads: int = 1) -> Tiny:
    """A base and a checkpoint below the folder. num_heads: 1, one row for the three outputs, or 3."""
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    tokenizer = saved_base(folder / "base")
    tokenizer.add_tokens(list(TOKENS), special_tokens=True)
    torch.manual_seed(0)
    model = Qwen2VLForConditionalGeneration(Qwen2VLConfig.from_pretrained(folder / "base"))
    model.resize_token_embeddings(len(tokenizer))
    model.rm_head = torch.nn.Linear(HIDDEN, num_heads, bias=False)
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    wrapped = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=names, bias="none"))
    for name, weights in wrapped.named_parameters():  # steep attention, so that a word and a frame count
        torch.nn.init.normal_(weights, std=0.6 if "q_proj" in name or "k_proj" in name or "qkv" in name else 0.3)
    for frequencies in wrapped.buffers():
        frequencies.copy_(frequencies.bfloat16())
    release = folder / "VideoReward"
    for step in (900, 11352):  # the last of them counts; by name it would be the first
        (release / f"checkpoint-{step}").mkdir(parents=True)
    torch.save({}, release / "checkpoint-900" / "model.pth")
    torch.save(old_names(wrapped.state_dict()), release / "checkpoint-11352" / "model.pth")
    (release / "model_config.json").write_text(json.dumps(settings()))
    templates = f'SIMPLE = "Rate {{text_prompt}}: "\nDETAILED = {QUESTION!r}\n'
    (release / "prompt_template.py").write_text(templates)
    return Tiny(release, folder / "base", wrapped.eval(), model.rm_head.weight.detach(), tokenizer)


def old_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """As transformers 4 named them: `visual` beside `model`, and no `language_model` in it."""
    wrapped = "base_model.model."
    return {
        name.replace(f"{wrapped}model.language_model.", f"{wrapped}model.").replace(
            f"{wrapped}model.visual.", f"{wrapped}visual."
        ): tensor
        for name, tensor in weights.items()
    }
