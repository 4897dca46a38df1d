"""VideoAlign's reward on a tiny Qwen2-VL, against the model that the release trains, with LoRA beside its weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from backend.media import quantise
from backend.rewards import judging, videoalign
from backend.rewards.judging import RewardFailed
from backend.rewards.videoalign import VideoAlign
from tests.backend.rewards import tiny_videoreward
from tests.backend.rewards.tiny_videoreward import INFERENCE, Tiny

HEIGHT, WIDTH = 308, 336  # multiples of 28 with 103488 pixels, between 128 x 28 x 28 and 200704: not resized
PROMPTS = ["a red cat runs", "two dogs", "snow falls on a {quiet} street at night"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return tiny_videoreward.saved(tmp_path_factory.mktemp("videoreward"))


@pytest.fixture
def copied(tiny: Tiny, tmp_path: Path) -> Path:
    """The release's folder, to be spoilt."""
    return Path(shutil.copytree(tiny.folder, tmp_path / "copied"))


def reward(tiny: Tiny, **fields: Any) -> VideoAlign:
    question = str(tiny.folder / "prompt_template.py")
    fields = {"checkpoint": str(tiny.folder), "base": str(tiny.base), "question": question, "dtype": "float32"} | fields
    return VideoAlign(revision=None, base_revision=None, **fields)


def videos(count: int, frames: int, height: int = HEIGHT, width: int = WIDTH) -> Tensor:
    """Frames of one random colour each under a little noise, at 8-bit levels."""
    generator = torch.Generator().manual_seed(frames)
    colours = torch.rand(count, frames, 3, 1, 1, generator=generator)
    return quantise(colours + 0.1 * torch.rand(count, frames, 3, height, width, generator=generator))


@pytest.mark.parametrize("measure", ["vq", "mq", "ta", "overall"])
def test_it_is_the_standardised_output_at_the_reward_token(tiny: Tiny, measure: str) -> None:
    frames = videos(1, 4)
    vq, mq, ta = tiny.scores(frames[0], PROMPTS[0])
    expected = {"vq": vq, "mq": mq, "ta": ta, "overall": vq + mq + ta}
    found = reward(tiny, measure=measure).score(frames, PROMPTS[:1])
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([expected[measure]], rel=1e-3, abs=1e-3)
    assert len({round(value, 2) for value in expected.values()}) == 4


def test_the_three_outputs_are_read_at_their_own_tokens_with_their_own_rows(tmp_path: Path) -> None:
    three = tiny_videoreward.saved(tmp_path, num_heads=3)
    frames = videos(1, 2)
    for measure, expected in zip(("vq", "mq", "ta"), three.scores(frames[0], PROMPTS[1]), strict=True):
        found = reward(three, measure=measure).score(frames, PROMPTS[1:2])
        assert found.tolist() == pytest.approx([expected], rel=1e-3, abs=1e-3)


def test_the_file_decides_the_mean_and_the_std(tiny: Tiny, copied: Path) -> None:
    plain = {name: float(name.endswith("_std")) for name in INFERENCE}  # mean 0 and std 1
    (copied / "model_config.json").write_text(json.dumps(tiny_videoreward.settings(inference_config=plain)))
    frames = videos(1, 2)
    found = reward(tiny, checkpoint=str(copied)).score(frames, PROMPTS[:1])
    assert found.tolist() == pytest.approx([sum(tiny.raw(frames[0], PROMPTS[0]))], rel=1e-3, abs=1e-3)


def test_each_video_meets_its_own_prompt_whatever_the_batch(tiny: Tiny) -> None:
    frames = videos(3, 2)
    expected = [sum(tiny.scores(video, prompt)) for video, prompt in zip(frames, PROMPTS, strict=True)]
    for batch in (1, 2, 4):
        assert reward(tiny, batch=batch).score(frames, PROMPTS).tolist() == pytest.approx(expected, rel=1e-3, abs=1e-3)
    turned = reward(tiny).score(frames.flip(0), PROMPTS[::-1])
    assert turned.tolist() == pytest.approx(expected[::-1], rel=1e-3, abs=1e-3)
    assert max(expected) - min(expected) > 0.1


@pytest.mark.parametrize(
    ("num_frames", "played", "places"),
    [
        (2, 16.0, [0, 1]),
        (3, 16.0, [0, 2]),
        (9, 16.0, [0, 3, 5, 8]),  # 9 / 16 x 2 = 1.1 frames, raised to 4
        (24, 8.0, [0, 5, 9, 14, 18, 23]),  # 24 / 8 x 2 = 6 frames, every 4.6th
    ],
)
def test_a_video_of_any_length_is_seen_at_two_frames_a_second(
    tiny: Tiny, num_frames: int, played: float, places: list[int]
) -> None:
    frames = videos(1, num_frames)
    found = reward(tiny, fps=played).score(frames, PROMPTS[:1])
    assert found.tolist() == pytest.approx([sum(tiny.scores(frames[0, places], PROMPTS[0]))], rel=1e-3, abs=1e-3)


def test_a_small_video_is_enlarged_first(tiny: Tiny) -> None:
    from backend.rewards.qwen_video import resized

    frames = videos(1, 2, 40, 44)
    seen = resized(frames, tiny_videoreward.MAX_PIXELS)
    assert seen.shape == (1, 2, 3, HEIGHT, WIDTH)  # 40 x 44 times (100352 / 1760) ** 0.5 = 7.55: 302 x 332, up to 28s
    found = reward(tiny).score(frames, PROMPTS[:1])
    assert found.tolist() == pytest.approx([sum(tiny.scores(seen[0], PROMPTS[0]))], rel=1e-3, abs=1e-3)


def test_bfloat16_is_near_float32(tiny: Tiny) -> None:
    frames = videos(2, 2)
    exact = reward(tiny, measure="mq").score(frames, PROMPTS[:2])
    found = reward(tiny, measure="mq", dtype="bfloat16").score(frames, PROMPTS[:2])
    assert found.tolist() == pytest.approx(exact.tolist(), abs=0.1)
    assert found.tolist() != exact.tolist()


def test_the_names_of_transformers_5_are_read_too(tiny: Tiny, copied: Path) -> None:
    torch.save(tiny.model.state_dict(), copied / "checkpoint-11352" / "model.pth")
    frames = videos(1, 2)
    found = reward(tiny, checkpoint=str(copied)).score(frames, PROMPTS[:1])
    assert found.tolist() == reward(tiny).score(frames, PROMPTS[:1]).tolist()


def test_single_pictures_are_not_judged(tiny: Tiny) -> None:
    verdicts = judging.score([reward(tiny)], videos(2, 1), PROMPTS[:2], [{}, {}])
    assert verdicts.parts["videoalign"].isnan().all()
    assert verdicts.reasons == {
        "videoalign": "videoalign judges videos of 2 frames or more; use a reward of pictures for single ones"
    }


def test_the_question_may_be_a_plain_text_file(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "question.txt").write_text(tiny_videoreward.QUESTION)
    frames = videos(1, 4)
    found = reward(tiny, question=str(tmp_path / "question.txt")).score(frames, PROMPTS[:1])
    assert found.tolist() == reward(tiny).score(frames, PROMPTS[:1]).tolist()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent.py", None, "is no file"),
        ("templates.py", "def (", "is no Python"),
        ("templates.py", 'ONE = "<|VQ_reward|> {text_prompt}"', "holds 0 texts with"),
        ("question.txt", tiny_videoreward.QUESTION.replace("{text_prompt}", "it"), "holds 0 texts with"),
        (
            "twice.py",
            f"A, B = {tiny_videoreward.QUESTION!r}, {' ' + tiny_videoreward.QUESTION!r}",
            "holds 2 texts with",
        ),
    ],
)
def test_a_file_without_the_question_is_refused(
    tiny: Tiny, tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"rewards\.videoalign\.question: .*{said}.*prompt_template\.py of github"):
        reward(tiny, question=str(tmp_path / name)).score(videos(1, 2), PROMPTS[:1])


def test_a_prompt_with_the_models_own_tokens_is_not_judged(tiny: Tiny) -> None:
    frames, own = videos(3, 2), "a cat <|video_pad|> runs"
    found = reward(tiny).score(frames, [PROMPTS[0], own, PROMPTS[2]])
    assert found.isnan().tolist() == [False, True, False]
    assert float(found[2]) == pytest.approx(sum(tiny.scores(frames[2], PROMPTS[2])), rel=1e-3, abs=1e-3)
    with pytest.raises(RewardFailed, match="every prompt holds tokens of Qwen2-VL's own"):
        reward(tiny).score(frames[:2], [own, "<|TA_reward|>"])


def refused(tiny: Tiny, **fields: Any) -> str:
    videoalign.opened.cache_clear()
    with pytest.raises(ValueError, match=r"rewards\.videoalign\.") as raised:
        reward(tiny, **fields).score(videos(1, 2, 28, 28), PROMPTS[:1])
    return str(raised.value)


@pytest.mark.parametrize("where", ["/no/such/folder", "nameless"])
def test_a_missing_checkpoint_is_named(tiny: Tiny, where: str) -> None:
    said = refused(tiny, checkpoint=where)
    assert said.startswith(f"rewards.videoalign.checkpoint: '{where}' cannot be loaded")
    assert "neither a folder nor owner/name of the hub" in said
    assert "download it while there is a network" in said


def test_missing_files_are_named(tiny: Tiny, copied: Path) -> None:
    (copied / "checkpoint-11352" / "model.pth").unlink()
    (copied / "checkpoint-900" / "model.pth").unlink()
    assert "no checkpoint-N/model.pth in" in refused(tiny, checkpoint=str(copied))
    (copied / "model_config.json").unlink()
    assert "no model_config.json in" in refused(tiny, checkpoint=str(copied))


def test_missing_constants_are_named_with_the_remedy(tiny: Tiny, copied: Path) -> None:
    stored = tiny_videoreward.settings()
    stored["inference_config"] = {name: value for name, value in INFERENCE.items() if not name.startswith("TA")}
    (copied / "model_config.json").write_text(json.dumps(stored))
    said = refused(tiny, checkpoint=str(copied), measure="ta")
    assert "inference_config.TA_mean in" in said
    assert "is None, not a number; take model_config.json from the checkpoint's own repository" in said
    (copied / "model_config.json").write_text("{")
    assert "is no JSON" in refused(tiny, checkpoint=str(copied))


def test_outputs_that_are_asked_for_in_another_way_are_refused(tiny: Tiny, copied: Path) -> None:
    stored = tiny_videoreward.settings(data_config={"prompt_template_type": "simple"})
    (copied / "model_config.json").write_text(json.dumps(stored))
    said = refused(tiny, checkpoint=str(copied))
    assert "data_config.prompt_template_type in" in said
    assert "is 'simple', and only 'detailed_special' is read here" in said


def test_weights_of_another_model_are_refused(tiny: Tiny, copied: Path) -> None:
    path = copied / "checkpoint-11352" / "model.pth"
    stored = torch.load(path, weights_only=True)
    del stored["base_model.model.rm_head.weight"]
    torch.save(stored, path)
    assert "KeyError: 'rm_head.weight'" in refused(tiny, checkpoint=str(copied))


def test_another_base_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    other = tmp_path / "other"
    tiny_videoreward.saved_base(other)
    words = tiny_videoreward.Tiny(tiny.folder, other, None, tiny.head, None)
    config = json.loads((other / "tokenizer.json").read_text())
    config["added_tokens"].append(config["added_tokens"][-1] | {"id": 262, "content": "<|another|>"})
    (other / "tokenizer.json").write_text(json.dumps(config))
    said = refused(words)
    assert "rewards.videoalign.base: the tokenizer of" in said
    assert "has 266 tokens with those of the reward, the checkpoint 265" in said
