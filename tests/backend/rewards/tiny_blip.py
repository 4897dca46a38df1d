"""A small ImageReward of random weights by the release's names, and its forward pass written out from them.

Shape legend
    N pictures, L tokens, W and D hidden dimensions of pictures and words.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

W, D, INNER, LAYERS, SIZE, PATCH, VOCAB, POSITIONS, HEAD = 128, 64, 96, 2, 32, 16, 40, 36, 64
PREDICTOR = (1024, 128, 64, 16, 1)
P, T = "blip.visual_encoder.", "blip.text_encoder."


def weights(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Tensor] = {}

    def linear(name: str, outer: int, inner: int) -> None:
        found[f"{name}.weight"] = torch.randn(outer, inner, generator=generator) / inner**0.5
        found[f"{name}.bias"] = 0.2 * torch.randn(outer, generator=generator)

    def norm(name: str, width: int) -> None:
        found[f"{name}.weight"] = 1 + 0.2 * torch.randn(width, generator=generator)
        found[f"{name}.bias"] = 0.2 * torch.randn(width, generator=generator)

    found[f"{P}cls_token"] = torch.randn(1, 1, W, generator=generator)
    found[f"{P}pos_embed"] = torch.randn(1, 1 + (SIZE // PATCH) ** 2, W, generator=generator)
    found[f"{P}patch_embed.proj.weight"] = torch.randn(W, 3, PATCH, PATCH, generator=generator) / 28
    found[f"{P}patch_embed.proj.bias"] = torch.randn(W, generator=generator)
    for i in range(LAYERS):
        at = f"{P}blocks.{i}"
        norm(f"{at}.norm1", W)
        linear(f"{at}.attn.qkv", 3 * W, W)
        linear(f"{at}.attn.proj", W, W)
        norm(f"{at}.norm2", W)
        linear(f"{at}.mlp.fc1", INNER, W)
        linear(f"{at}.mlp.fc2", W, INNER)
    norm(f"{P}norm", W)
    found[f"{T}embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    found[f"{T}embeddings.word_embeddings.weight"] = torch.randn(VOCAB, D, generator=generator)
    found[f"{T}embeddings.position_embeddings.weight"] = torch.randn(POSITIONS, D, generator=generator)
    norm(f"{T}embeddings.LayerNorm", D)
    for i in range(LAYERS):
        at = f"{T}encoder.layer.{i}"
        for kind, width in (("attention", D), ("crossattention", W)):
            linear(f"{at}.{kind}.self.query", D, D)
            linear(f"{at}.{kind}.self.key", D, width)
            linear(f"{at}.{kind}.self.value", D, width)
            linear(f"{at}.{kind}.output.dense", D, D)
            norm(f"{at}.{kind}.output.LayerNorm", D)
        linear(f"{at}.intermediate.dense", INNER, D)
        linear(f"{at}.output.dense", D, INNER)
        norm(f"{at}.output.LayerNorm", D)
    linear("blip.vision_proj", 8, W)
    linear("blip.text_proj", 8, D)
    for number, (inner, outer) in zip((0, 2, 4, 6, 7), zip((D, *PREDICTOR[:-1]), PREDICTOR, strict=True), strict=True):
        linear(f"mlp.layers.{number}", outer, inner)
    return found


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """[N, L, D] of each, in heads of 64; mask Bool[1, L of keys], True where there is a word."""
    split = [one.unflatten(-1, (-1, HEAD)).transpose(1, 2) for one in (query, key, value)]
    return F.scaled_dot_product_attention(*split, attn_mask=mask).transpose(1, 2).flatten(2)


@torch.no_grad()
def predicted(stored: dict[str, Tensor], normalised: Tensor, tokens: list[int]) -> Tensor:
    """Pictures [N, 3, S, S] and the tokens of one text, padded to 35 by zeros -> the predictor's outputs [N]."""

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, stored[f"{name}.weight"], stored[f"{name}.bias"])

    def norm(x: Tensor, name: str, eps: float) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], stored[f"{name}.weight"], stored[f"{name}.bias"], eps)

    patches = F.conv2d(
        normalised, stored[f"{P}patch_embed.proj.weight"], stored[f"{P}patch_embed.proj.bias"], stride=PATCH
    ).flatten(2)
    x = torch.cat([stored[f"{P}cls_token"].expand(len(patches), 1, -1), patches.transpose(1, 2)], 1)
    x = x + stored[f"{P}pos_embed"]
    for i in range(LAYERS):
        at = f"{P}blocks.{i}"
        x = x + linear(
            attention(*linear(norm(x, f"{at}.norm1", 1e-6), f"{at}.attn.qkv").chunk(3, -1)), f"{at}.attn.proj"
        )
        x = x + linear(F.gelu(linear(norm(x, f"{at}.norm2", 1e-6), f"{at}.mlp.fc1")), f"{at}.mlp.fc2")
    picture = norm(x, f"{P}norm", 1e-6)

    padded = tokens + [0] * (35 - len(tokens))
    mask = (torch.arange(35) < len(tokens))[None]
    words, positions = (stored[f"{T}embeddings.{kind}_embeddings.weight"] for kind in ("word", "position"))
    h = norm(words[padded] + positions[:35], f"{T}embeddings.LayerNorm", 1e-12).expand(len(x), -1, -1)
    for i in range(LAYERS):
        at = f"{T}encoder.layer.{i}"
        for kind, source, hidden in (("attention", None, mask), ("crossattention", picture, None)):
            seen = h if source is None else source
            query = linear(h, f"{at}.{kind}.self.query")
            key, value = (linear(seen, f"{at}.{kind}.self.{one}") for one in ("key", "value"))
            mixed = linear(attention(query, key, value, hidden), f"{at}.{kind}.output.dense")
            h = norm(mixed + h, f"{at}.{kind}.output.LayerNorm", 1e-12)
        inner = linear(F.gelu(linear(h, f"{at}.intermediate.dense")), f"{at}.output.dense")
        h = norm(inner + h, f"{at}.output.LayerNorm", 1e-12)
    out = h[:, 0]
    for number in (0, 2, 4, 6, 7):
        out = linear(out, f"mlp.layers.{number}")
    return out[:, 0]
