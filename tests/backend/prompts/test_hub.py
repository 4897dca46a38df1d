import sys
from pathlib import Path

import pytest

from backend.prompts.sources import DatasetPrompts


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[datasets\]'"):
        DatasetPrompts(id="someone/without-library").batch(0, 0)


def test_a_folder_is_loaded_as_the_hub_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "train.csv").write_text("caption,seed\na cat,1\na dog,2\n")
    found = DatasetPrompts(id=str(folder), per_step=2).batch(0, 0)
    assert sorted((one.text, one.metadata["seed"]) for one in found) == [("a cat", 1), ("a dog", 2)]
    with pytest.raises(ValueError, match=r"prompts\.column: .*no column 'prompt'"):
        DatasetPrompts(id=str(folder), column="prompt").batch(0, 0)
    with pytest.raises(ValueError, match=r"prompts\.id: the split 'test' .* could not be loaded"):
        DatasetPrompts(id=str(folder), split="test").batch(0, 0)
