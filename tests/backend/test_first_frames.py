"""Whether every video of an image-to-video run has a picture to start from, before it is queued."""

import json
from pathlib import Path

import pytest
from PIL import Image

from backend import first_frames
from backend.config import RunConfig
from backend.methods.dgpo import DGPO
from backend.models.sd3 import SD3
from backend.models.wan import Wan
from backend.prompts.sources import FilePrompts


@pytest.fixture
def base(tmp_path: Path) -> str:
    """A folder that says what an image-to-video base is; nothing of it is loaded."""
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "WanImageToVideoPipeline"}))
    return str(folder)


def run(folder: Path, base: str, rows: list[dict[str, str]], **model: str) -> RunConfig:
    """A run on prompts that it is evaluated on, too, with pictures a.png and b.png beside them."""
    for name in ("a", "b"):
        Image.new("RGB", (8, 8), "red").save(folder / f"{name}.png")
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RunConfig(
        model=Wan(base=base, **model),
        method=DGPO(),
        prompts=FilePrompts(path=str(file), per_step=1),
        evaluation={"prompts": str(file)},
    )


GOOD = [{"prompt": "a tide", "first_frame": "a.png"}, {"prompt": "a storm", "first_frame": "b.png"}]


def test_a_picture_beside_each_prompt_is_enough(tmp_path: Path, base: str) -> None:
    config = run(tmp_path, base, GOOD)
    assert first_frames.problems(config) == []
    batches = [config.prompts.batch(0, step)[0] for step in (0, 1)]
    assert {one.text: one.first_frame for one in batches} == {
        "a tide": str(tmp_path / "a.png"),
        "a storm": str(tmp_path / "b.png"),
    }


def test_a_prompt_without_one_is_named_by_its_line(tmp_path: Path, base: str) -> None:
    config = run(tmp_path, base, [GOOD[0], {"prompt": "a storm"}])
    (field, told), (evaluated, _) = first_frames.problems(config)
    assert (field, evaluated) == ("prompts.path", "evaluation.prompts")
    assert "1 prompts have no first frame" in told
    assert "line 2: it has no first_frame" in told
    assert "model.first_frame" in told
    with pytest.raises(ValueError, match=r"prompts\.path: .*line 2"):
        first_frames.require(config)


def test_the_settings_first_frame_serves_those_without(tmp_path: Path, base: str) -> None:
    config = run(tmp_path, base, [GOOD[0], {"prompt": "a storm"}], first_frame=str(tmp_path / "b.png"))
    assert first_frames.problems(config) == []


def test_missing_and_unreadable_pictures_are_refused_although_there_is_one_for_all(tmp_path: Path, base: str) -> None:
    (tmp_path / "text.png").write_text("no picture")
    cut = Image.effect_noise((64, 64), 50)
    cut.save(tmp_path / "whole.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:900])
    rows = [{"prompt": name, "first_frame": name} for name in ("a.png", "none.png", "text.png", "cut.jpg")]
    told = first_frames.problems(run(tmp_path, base, rows, first_frame=str(tmp_path / "b.png")), thorough=True)[0][1]
    assert "3 prompts" in told
    assert "line 2: first_frame:" in told
    assert "none.png does not exist; give the path of a picture" in told
    assert "line 3:" in told
    assert "line 4:" in told
    assert "save it anew" in told


def test_a_first_frame_for_all_must_be_there(tmp_path: Path, base: str) -> None:
    (told,) = first_frames.problems(run(tmp_path, base, GOOD, first_frame="nowhere.png"))
    assert told == ("model.first_frame", "nowhere.png does not exist; give the path of a picture")


def test_prompts_of_a_built_in_world_need_one_for_all(base: str) -> None:
    config = RunConfig(model=Wan(base=base), method=DGPO())
    assert [field for field, _ in first_frames.problems(config)] == ["prompts.source", "evaluation.prompts"]


def test_bases_that_start_from_noise_alone_ask_for_none(tmp_path: Path, base: str) -> None:
    assert first_frames.problems(RunConfig(model=SD3(), method=DGPO())) == []
    rows = [{"prompt": "a tide", "first_frame": "none.png"}]
    assert first_frames.problems(run(tmp_path, "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", rows)) == []
    assert first_frames.problems(run(tmp_path, "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", rows)) != []


def test_stored_groups_cannot_keep_pictures(tmp_path: Path, base: str) -> None:
    with pytest.raises(ValueError, match=r"prompts\.path: groups keep texts; remove the column first_frame"):
        first_frames.forbid_own(run(tmp_path, base, GOOD), "groups keep texts")
    first_frames.forbid_own(run(tmp_path, base, [{"prompt": "a"}], first_frame=str(tmp_path / "a.png")), "groups")


def test_stored_groups_need_one_picture_for_all(tmp_path: Path, base: str) -> None:
    config = run(tmp_path, base, GOOD).model_copy(update={"groups": "groups"})
    ((field, told),) = first_frames.problems(config)
    assert field == "model.first_frame"
    assert "stored groups keep texts alone" in told


def test_a_picture_that_is_too_large_is_a_fault(tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = run(tmp_path, base, GOOD)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 8)  # the pictures have 64, and twice as many are refused
    assert "too large" in first_frames.problems(config)[0][1]


def test_a_page_reads_heads_and_a_run_whole_pictures(tmp_path: Path, base: str) -> None:
    config = run(tmp_path, base, GOOD)
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[:-30])  # cut off within its pixels
    assert first_frames.problems(config) == []
    assert "cannot be read as a picture" in first_frames.problems(config, thorough=True)[0][1]
