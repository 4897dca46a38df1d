"""The architecture of a video base for moving shapes, and its folder: a WanPipeline sized for two CPU cores."""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.moving.prompts import TASKS, WRAPPERS, content_text, contents

BASE = Path(__file__).parent / "base"
TEXT_LENGTH = 20
TEXT_WIDTH = 64
CHANNELS = 16
PATCH = 4


@dataclass
class Modules:
    """The parts of the pipeline, before it exists."""

    transformer: Any
    vae: Any
    text_encoder: Any
    tokenizer: Any
    scheduler: Any


def _tokenizer() -> Any:
    """A T5 tokenizer in which every word of the prompts is one token, and any other is spelled out."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import T5Tokenizer

    words = {word for opener, closer in WRAPPERS for word in f"{opener} {closer}".split()}
    words |= {word for task in TASKS for scene in contents(task) for word in content_text(scene).split()}
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -10.0), *((f"▁{word}", -2.0) for word in sorted(words))]
    pieces += [(letter, -8.0) for letter in "▁" + string.ascii_lowercase + string.digits + string.punctuation]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return T5Tokenizer(tokenizer_object=tokenizer, extra_ids=0, model_max_length=TEXT_LENGTH)


def build_modules() -> Modules:
    """Fresh modules with random weights, drawn from torch's global generator."""
    from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanTransformer3DModel
    from transformers import UMT5Config, UMT5EncoderModel

    tokenizer = _tokenizer()
    text = UMT5Config(
        vocab_size=len(tokenizer),
        d_model=TEXT_WIDTH,
        d_kv=32,
        d_ff=2 * TEXT_WIDTH,
        num_layers=2,
        num_heads=2,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    return Modules(
        transformer=WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=4,
            attention_head_dim=32,
            in_channels=CHANNELS,
            out_channels=CHANNELS,
            text_dim=TEXT_WIDTH,
            freq_dim=64,
            ffn_dim=512,
            num_layers=5,
            rope_max_seq_len=16,
        ),
        # frames enter in patches, as those of Wan2.2's autoencoder do: convolutions at full size cost the most
        vae=AutoencoderKLWan(
            base_dim=24,
            z_dim=CHANNELS,
            dim_mult=[1, 2],
            num_res_blocks=1,
            temperal_downsample=[True],
            latents_mean=[0.0] * CHANNELS,
            latents_std=[1.0] * CHANNELS,
            patch_size=PATCH,
            in_channels=3 * PATCH**2,
            out_channels=3 * PATCH**2,
            scale_factor_temporal=2,
            scale_factor_spatial=2 * PATCH,
        ),
        text_encoder=UMT5EncoderModel(text),
        tokenizer=tokenizer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0),
    )


def save_bundle(modules: Modules, folder: Path) -> None:
    """Write the pipeline folder, weights as safetensors in fp32."""
    from diffusers import WanPipeline

    pipeline: Any = WanPipeline(**vars(modules))
    pipeline.save_pretrained(folder, safe_serialization=True)
