"""A CLIP of random weights, small enough to be made in a test, and OpenCLIP's forward pass by its own names.

Shape legend
    N pictures or texts, L tokens, D hidden dimensions, E embedding dimensions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, EMBED, SIZE, PATCH, LENGTH = 8, 2, 2, 6, 16, 8, 12
ACTIVATION = {"quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "gelu": F.gelu}


def tokenizer() -> Any:
    """Byte-level CLIP tokens without merges: one a letter, and one more for the last of a word."""
    from transformers import CLIPTokenizer

    letters = [chr(code) for code in range(33, 127)]
    names = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocab = {name: number for number, name in enumerate(names)}
    return CLIPTokenizer(vocab=vocab, merges=[], model_max_length=LENGTH, unk_token="<|endoftext|>")


def model(activation: str, seed: int = 0, legacy_eos: bool = False) -> Any:
    """legacy_eos: the configuration of OpenAI's and LAION's files, in which the largest token ends a text."""
    from transformers import CLIPConfig, CLIPModel

    words = tokenizer()
    tower = {
        "hidden_size": WIDTH,
        "intermediate_size": 4 * WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "hidden_act": activation,
    }
    text = tower | {
        "vocab_size": len(words),
        "max_position_embeddings": LENGTH,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": 2 if legacy_eos else words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }
    vision = tower | {"image_size": SIZE, "patch_size": PATCH}
    made = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=EMBED))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return made.eval()


def saved(folder: Path, activation: str, seed: int = 0) -> tuple[Path, Any]:
    """A folder that from_pretrained opens, and the model in it."""
    made = model(activation, seed, legacy_eos=True)
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder, made


def open_clip_names(made: Any) -> dict[str, Tensor]:
    """The weights as OpenCLIP stores them."""
    text, vision = made.text_model, made.vision_model
    stored = {
        "logit_scale": made.logit_scale,
        "positional_embedding": text.embeddings.position_embedding.weight,
        "token_embedding.weight": text.embeddings.token_embedding.weight,
        "ln_final.weight": text.final_layer_norm.weight,
        "ln_final.bias": text.final_layer_norm.bias,
        "text_projection": made.text_projection.weight.T,
        "attn_mask": torch.zeros(LENGTH, LENGTH),
        "visual.proj": made.visual_projection.weight.T,
        "visual.class_embedding": vision.embeddings.class_embedding,
        "visual.positional_embedding": vision.embeddings.position_embedding.weight,
        "visual.conv1.weight": vision.embeddings.patch_embedding.weight,
        "visual.ln_pre.weight": vision.pre_layrnorm.weight,
        "visual.ln_pre.bias": vision.pre_layrnorm.bias,
        "visual.ln_post.weight": vision.post_layernorm.weight,
        "visual.ln_post.bias": vision.post_layernorm.bias,
    }
    for prefix, tower in (("", text), ("visual.", vision)):
        for number, layer in enumerate(tower.encoder.layers):
            at, attention = f"{prefix}transformer.resblocks.{number}", layer.self_attn
            three = (attention.q_proj, attention.k_proj, attention.v_proj)
            stored[f"{at}.attn.in_proj_weight"] = torch.cat([one.weight for one in three])
            stored[f"{at}.attn.in_proj_bias"] = torch.cat([one.bias for one in three])
            parts = {
                "attn.out_proj": attention.out_proj,
                "ln_1": layer.layer_norm1,
                "ln_2": layer.layer_norm2,
                "mlp.c_fc": layer.mlp.fc1,
                "mlp.c_proj": layer.mlp.fc2,
            }
            for name, part in parts.items():
                stored |= {f"{at}.{name}.weight": part.weight, f"{at}.{name}.bias": part.bias}
    return {name: value.detach().clone() for name, value in stored.items()}


def blocks(x: Tensor, weights: dict[str, Tensor], prefix: str, activation: str, mask: Tensor | None) -> Tensor:
    """[N, L, D] through the pre-norm residual blocks, with torch's own multi-head attention."""
    for number in range(LAYERS):
        at = f"{prefix}transformer.resblocks.{number}"

        def norm(value: Tensor, name: str, at: str = at) -> Tensor:
            return F.layer_norm(value, (WIDTH,), weights[f"{at}.{name}.weight"], weights[f"{at}.{name}.bias"])

        attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        attention.load_state_dict({
            name: weights[f"{at}.attn.{name}"]
            for name in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        })  # fmt: skip
        seen = norm(x, "ln_1")
        x = x + attention(seen, seen, seen, attn_mask=mask, need_weights=False)[0]
        inner = F.linear(norm(x, "ln_2"), weights[f"{at}.mlp.c_fc.weight"], weights[f"{at}.mlp.c_fc.bias"])
        inner = ACTIVATION[activation](inner)
        x = x + F.linear(inner, weights[f"{at}.mlp.c_proj.weight"], weights[f"{at}.mlp.c_proj.bias"])
    return x


@torch.no_grad()
def picture_embedding(weights: dict[str, Tensor], normalised: Tensor, activation: str) -> Tensor:
    """[N, 3, S, S] -> unit [N, E]."""
    patches = F.conv2d(normalised, weights["visual.conv1.weight"], stride=PATCH).flatten(2).transpose(1, 2)
    first = weights["visual.class_embedding"].expand(len(patches), 1, -1)
    x = torch.cat([first, patches], dim=1) + weights["visual.positional_embedding"]
    x = F.layer_norm(x, (WIDTH,), weights["visual.ln_pre.weight"], weights["visual.ln_pre.bias"])
    x = blocks(x, weights, "visual.", activation, None)[:, 0]
    x = F.layer_norm(x, (WIDTH,), weights["visual.ln_post.weight"], weights["visual.ln_post.bias"])
    return F.normalize(x @ weights["visual.proj"], dim=-1)


@torch.no_grad()
def text_embedding(weights: dict[str, Tensor], text: str, activation: str) -> Tensor:
    """Unit [E], of the position of the end-of-text token."""
    words = tokenizer()
    letters = [
        f"{letter}</w>" if place == len(word) - 1 else letter
        for word in text.lower().split()
        for place, letter in enumerate(word)
    ][: LENGTH - 2]
    tokens = [words.bos_token_id, *words.convert_tokens_to_ids(letters), words.eos_token_id]
    x = weights["token_embedding.weight"][tokens] + weights["positional_embedding"][: len(tokens)]
    mask = torch.full((len(tokens), len(tokens)), -torch.inf).triu(1)
    x = blocks(x[None], weights, "", activation, mask)[0, -1]
    x = F.layer_norm(x, (WIDTH,), weights["ln_final.weight"], weights["ln_final.bias"])
    return F.normalize(x @ weights["text_projection"], dim=-1)
