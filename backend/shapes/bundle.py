"""The architecture of the bundled base model, and its folder: a StableDiffusion3Pipeline sized for two CPU cores."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.shapes.prompts import TASKS, WRAPPERS, content_text, contents

BASE = Path(__file__).parent / "base"
TEXT_LENGTH = 14
TEXT_WIDTH = 64


@dataclass
class Modules:
    """The parts of the pipeline, before it exists."""

    transformer: Any
    vae: Any
    text_encoder: Any
    text_encoder_2: Any
    tokenizer: Any
    tokenizer_2: Any
    scheduler: Any


def _tokenizer() -> Any:
    """A CLIP tokenizer in which every word of the Shapes prompts is one token, and any other ASCII word is several.

    The same in every process: the trainer numbers characters at the end of a word in the order of a hash table, and
    breaks ties between merges by number, unless they are named beforehand.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import CLIPTokenizer

    words = {word for opener, closer in WRAPPERS for word in f"{opener} {closer}".split()}
    words |= {word for task in TASKS for scene in contents(task) for word in content_text(scene).split()}
    letters = sorted(set(string.ascii_lowercase + string.digits + string.punctuation))
    learner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learner.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=1,
        end_of_word_suffix="</w>",
        special_tokens=[*letters, *(f"{letter}</w>" for letter in letters)],
        show_progress=False,
    )
    learner.train_from_iterator([" ".join(sorted(words)), *letters], trainer)
    state = json.loads(learner.to_str())["model"]
    vocab = {"<|startoftext|>": 0, "<|endoftext|>": 1}
    for token in sorted(state["vocab"], key=state["vocab"].__getitem__):
        vocab.setdefault(token, len(vocab))
    merges: Any = [tuple(pair) for pair in state["merges"]]
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=TEXT_LENGTH, unk_token="<|endoftext|>")


def build_modules() -> Modules:
    """Fresh modules with random weights, drawn from torch's global generator."""
    from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    tokenizer = _tokenizer()
    text = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=TEXT_WIDTH,
        intermediate_size=2 * TEXT_WIDTH,
        projection_dim=TEXT_WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=TEXT_LENGTH,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Modules(
        transformer=SD3Transformer2DModel(
            sample_size=8,
            patch_size=2,
            in_channels=8,
            out_channels=8,
            num_layers=4,
            num_attention_heads=4,
            attention_head_dim=32,
            joint_attention_dim=2 * TEXT_WIDTH,
            caption_projection_dim=128,
            pooled_projection_dim=2 * TEXT_WIDTH,
            pos_embed_max_size=4,
        ),
        vae=AutoencoderKL(
            sample_size=64,
            latent_channels=8,
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(8, 16, 32, 64),
            layers_per_block=1,
            norm_num_groups=4,
            mid_block_add_attention=False,
            use_quant_conv=False,
            use_post_quant_conv=False,
            scaling_factor=1.0,
            shift_factor=0.0,
        ),
        text_encoder=CLIPTextModelWithProjection(text),
        text_encoder_2=CLIPTextModelWithProjection(text),
        tokenizer=tokenizer,
        tokenizer_2=_tokenizer(),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0),
    )


def save_bundle(modules: Modules, folder: Path) -> None:
    """Write the pipeline folder, weights as safetensors in fp32."""
    from diffusers import StableDiffusion3Pipeline

    pipeline: Any = StableDiffusion3Pipeline(**vars(modules), text_encoder_3=None, tokenizer_3=None)
    pipeline.save_pretrained(folder, safe_serialization=True)
