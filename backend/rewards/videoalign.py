"""VideoReward of VideoAlign (Liu et al. 2025, arXiv 2501.13918): visual quality, motion quality and text alignment.

Shape legend
    N videos of F frames, K of them seen, L tokens, D hidden dimensions; 3 outputs, VQ, MQ and TA.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from backend.device import pick
from backend.media import FRAMES_PER_SECOND
from backend.methods.settings import Settings
from backend.rewards import preprocessing, qwen_video, scaling, videoalign_release
from backend.rewards.judging import RewardFailed
from backend.rewards.videoalign_prompt import TOKENS, asked, read_question
from backend.rewards.videoalign_release import DIMENSIONS, Constants
from backend.rewards.weights_file import NEWEST, commit, loading


class Judge:
    """Qwen2-VL with a linear head on its last hidden state, read at the three reward tokens."""

    def __init__(self, model: Any, head: Tensor, tokenizer: Any, question: str, constants: Constants) -> None:
        """head: [1 or 3, D], one for all outputs or one each."""
        device = pick()
        self.model = model.to(device).eval().requires_grad_(False)
        self.head, self.tokenizer, self.constants, self.device = head.to(device), tokenizer, constants, device
        self.question = question
        self.tokens = torch.tensor(tokenizer.convert_tokens_to_ids(list(TOKENS)), device=device)
        self._own = tuple(tokenizer.get_added_vocab())

    def can_read(self, prompt: str) -> bool:
        """Not when a prompt holds tokens that mean a video, a turn or a reward to the model."""
        return not any(token in prompt for token in self._own)

    @torch.no_grad()
    def __call__(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, K, 3, H, W] in 0..1, K even, and N prompts -> standardised outputs, float64 [N, 3]."""
        sight = self.model.config.vision_config
        seen = preprocessing.normalise(qwen_video.resized(frames.to(self.device), self.constants.max_pixels))
        patches, grids = qwen_video.patches(seen, sight.patch_size, sight.temporal_patch_size, sight.spatial_merge_size)
        num_video_tokens = int(grids[0].prod()) // sight.spatial_merge_size**2
        # Padding follows what is read, and attention looks back only: it needs no mask.
        ids = self.tokenizer(
            [asked(self.question, prompt, num_video_tokens) for prompt in prompts],
            padding=True,
            padding_side="right",
            return_tensors="pt",
        ).input_ids.to(self.device)
        # The release calls the language model without position ids: it counts tokens, and has no axes of a video.
        places = torch.arange(ids.shape[1], device=self.device).expand(3, *ids.shape)
        hidden = self.model(
            input_ids=ids, position_ids=places, pixel_values_videos=patches, video_grid_thw=grids, use_cache=False
        ).last_hidden_state
        at = (ids[:, :, None] == self.tokens).int().argmax(1)
        read = hidden.gather(1, at[:, :, None].expand(-1, -1, hidden.shape[-1]))
        raw = (read.float() * self.head).sum(-1).double().cpu()
        mean, std = (torch.tensor(one, dtype=torch.float64) for one in (self.constants.mean, self.constants.std))
        return (raw - mean) / std


def assembled(config: Any, weights: dict[str, Tensor], dtype: torch.dtype) -> Any:
    """transformers' Qwen2VLModel of these weights. Raises KeyError or RuntimeError where they do not fit."""
    from accelerate import init_empty_weights
    from transformers import Qwen2VLModel

    config.text_config.vocab_size = len(weights["language_model.embed_tokens.weight"])
    with init_empty_weights(include_buffers=False):
        model: Any = Qwen2VLModel(config)
    model.load_state_dict(weights, assign=True)
    # The release casts its whole model to bfloat16, in training too, and with it the frequencies of positions.
    for frequencies in model.buffers():
        frequencies.copy_(frequencies.bfloat16())
    return model.to(dtype)


@lru_cache(maxsize=1)
def opened(
    checkpoint: str, revision: str | None, base: str, base_revision: str | None, question: str, dtype: torch.dtype
) -> Judge:
    """Raises ValueError where a file is missing, cannot be fetched or is of another model."""
    from transformers import AutoTokenizer, Qwen2VLConfig

    words = read_question(question)
    with loading("rewards.videoalign.base", base):
        config: Any = Qwen2VLConfig.from_pretrained(base, revision=base_revision or NEWEST)
        tokenizer = AutoTokenizer.from_pretrained(base, revision=base_revision or NEWEST)
    tokenizer.add_tokens(list(TOKENS), special_tokens=True)
    with loading("rewards.videoalign.checkpoint", checkpoint):
        folder = videoalign_release.find_folder(checkpoint, revision)
        constants = videoalign_release.constants(folder)
        stored = torch.load(videoalign_release.weights_path(folder), map_location="cpu", weights_only=True, mmap=True)
        weights, head = videoalign_release.converted(stored, constants.lora_scale, dtype)
        model = assembled(config, weights, dtype)
    if len(tokenizer) != config.text_config.vocab_size:
        raise ValueError(
            f"rewards.videoalign.base: the tokenizer of {base!r} has {len(tokenizer)} tokens with those of the reward, "
            f"the checkpoint {config.text_config.vocab_size}; name the model that the checkpoint was trained from"
        )
    return Judge(model, head, tokenizer, words, constants)


class VideoAlign(Settings):
    """What people think of a video, by Qwen2-VL 2B that was tuned on pairs: a z-score each, or the sum of the three.

    VideoReward: Apache-2.0 licence, 2.2 billion parameters, 5 GB; architecture and tokenizer are Qwen's, Apache-2.0.
    Both are pinned.
    """

    differentiable: ClassVar[bool] = False
    name: Literal["videoalign"] = "videoalign"
    weight: float = scaling.weight("videoalign")
    measure: Literal["overall", "vq", "mq", "ta"] = Field(
        "overall",
        description="vq visual quality, mq motion quality, ta text alignment, or overall, their sum "
        "(BranchGRPO mq, DanceGRPO vq)",
    )
    question: str = Field(
        "",
        description="prompt_template.py of github.com/KwaiVGI/VideoAlign, on the machine that trains: the words that "
        "the weights were trained on",
    )
    fps: float = Field(
        FRAMES_PER_SECOND,
        gt=0,
        le=240,
        description="Frames a second at which the videos are meant to be played; the model sees 2 of each second "
        "(Wan2.1 16; DanceGRPO 8)",
    )
    batch: int = Field(4, ge=1, le=1024, description="Most videos in one forward of the reward model (ours)")
    dtype: Literal["bfloat16", "float32"] = Field(
        "bfloat16", description="Of the weights on the device; the release was trained and tested in bfloat16"
    )
    checkpoint: str = Field(
        videoalign_release.PUBLISHED,
        min_length=1,
        description="The release's folder with model_config.json and checkpoint-N/model.pth: hub id or folder",
    )
    revision: str | None = commit("4f26600130683e6f1de9f5d463887f28e8ef995c")
    base: str = Field(
        "Qwen/Qwen2-VL-2B-Instruct",
        min_length=1,
        description="Whose architecture and tokenizer it has: hub id or folder",
    )
    base_revision: str | None = commit("895c3a49bc3fa70a340399125c650a463535e71c")

    def score(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """frames [N, F, 3, H, W] in 0..1 -> float64 [N]; NaN for a prompt that holds one of the model's own tokens.

        Raises RewardFailed for single pictures, and where no prompt can be read.
        """
        if frames.shape[1] < 2:
            raise RewardFailed("videoalign judges videos of 2 frames or more; use a reward of pictures for single ones")
        dtype = getattr(torch, self.dtype)
        judge = opened(self.checkpoint, self.revision, self.base, self.base_revision, self.question, dtype)
        readable = torch.tensor([i for i, prompt in enumerate(prompts) if judge.can_read(prompt)], dtype=torch.long)
        if not len(readable):
            raise RewardFailed("videoalign: every prompt holds tokens of Qwen2-VL's own, such as <|im_end|>")
        seen = qwen_video.sampled(frames, self.fps, judge.constants.fps)
        found = torch.full((len(frames), len(DIMENSIONS)), torch.nan, dtype=torch.float64)
        for rows in readable.split(self.batch):
            found[rows] = judge(seen[rows.to(seen.device)], [prompts[i] for i in rows.tolist()])
        return found.sum(1) if self.measure == "overall" else found[:, DIMENSIONS.index(self.measure.upper())]
