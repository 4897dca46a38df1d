"""Checkpoints of the real architectures with tiny random weights, saved as pipeline folders."""

from __future__ import annotations

import torch

from backend.shapes.bundle import _tokenizer as clip_tokenizer

PROMPTS = ["a red circle", "three stars on black"]
WORDS = ["a", "red", "circle", "three", "stars", "on", "black", "white", "blue", "square"]


def t5_tokenizer(length=32):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import T5TokenizerFast

    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -10.0)]
    pieces += [(f"▁{word}", -2.0) for word in WORDS] + [(letter, -5.0) for letter in "▁abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return T5TokenizerFast(tokenizer_object=tokenizer, extra_ids=0, model_max_length=length)


def _t5(kind, tokenizer):
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        feed_forward_proj="gated-gelu", pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    return getattr(transformers, f"{kind}EncoderModel")(config)


def _noisy(module):
    """Weights that a fresh module starts at zero or one are moved, so that every part of it shows in its output."""
    with torch.no_grad():
        for value in module.parameters():
            value.add_(0.05 * torch.randn(value.shape))
    return module.eval()


def save_flux(folder):
    """A FluxPipeline of 2 + 2 layers; its 16 x 16 pictures have latents of 4 x 8 x 8."""
    from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    tokenizer, tokenizer_2 = clip_tokenizer(), t5_tokenizer()
    clip = CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=14, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    transformer = FluxTransformer2DModel(
        in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=24, guidance_embeds=True, axes_dims_rope=(4, 4, 8),
    )  # fmt: skip
    vae = AutoencoderKL(
        sample_size=32, latent_channels=4, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        use_quant_conv=False, use_post_quant_conv=False, scaling_factor=0.3611, shift_factor=0.1159,
    )  # fmt: skip
    scheduler = FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True,
        base_shift=0.5,
        max_shift=1.15,
        base_image_seq_len=256,
        max_image_seq_len=4096,
        shift=3.0,
    )
    FluxPipeline(
        transformer=_noisy(transformer), vae=_noisy(vae), scheduler=scheduler, tokenizer=tokenizer,
        tokenizer_2=tokenizer_2, text_encoder=CLIPTextModel(clip).eval(), text_encoder_2=_t5("T5", tokenizer_2).eval(),
    ).save_pretrained(folder)  # fmt: skip
    return folder


def _wan_parts(**transformer):
    from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanTransformer3DModel

    torch.manual_seed(0)
    vae = AutoencoderKLWan(
        base_dim=4, z_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
        latents_mean=[-0.7, 0.1, 0.4, -0.2], latents_std=[2.8, 1.4, 2.3, 0.9],
    )  # fmt: skip
    tokenizer = t5_tokenizer()
    shape = {"in_channels": 4, "out_channels": 4} | transformer
    denoiser = WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=16, text_dim=32, freq_dim=16, ffn_dim=64, num_layers=2, **shape
    )
    return {
        "vae": _noisy(vae), "tokenizer": tokenizer, "text_encoder": _t5("UMT5", tokenizer).eval(),
        "transformer": _noisy(denoiser), "scheduler": FlowMatchEulerDiscreteScheduler(shift=3.0),
    }  # fmt: skip


def save_wan(folder):
    """A WanPipeline; its latents have 4 channels."""
    from diffusers import WanPipeline

    WanPipeline(**_wan_parts()).save_pretrained(folder)
    return folder


def save_wan_image(folder):
    """A WanImageToVideoPipeline, whose transformer sees 4 + 4 + 4 channels and a picture's CLIP embeddings."""
    from diffusers import WanImageToVideoPipeline
    from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModel

    parts = _wan_parts(in_channels=12, image_dim=16, added_kv_proj_dim=32)
    vision = CLIPVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8
    )
    processor = CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    WanImageToVideoPipeline(
        **parts, image_encoder=CLIPVisionModel(vision).eval(), image_processor=processor
    ).save_pretrained(folder)
    return folder
