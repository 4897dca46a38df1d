"""The whole loop against a real server and worker, as small as it gets."""

from pathlib import Path

import pytest

from backend.preferences import judged_folder
from backend.preferences.archive import Archive
from frontend_components.judging.loop import Size, loop

SMALL = (
    "sampling.steps=4",
    "sampling.evaluation_steps=4",
    "method.split_steps=[0,1]",
    "prompts.per_step=2",
    "evaluation.limit=40",
    # so high that two steps make other pictures, which can be told apart
    "optimizer.learning_rate=0.003",
    "optimizer.ema_decay=null",
    "optimizer.warmup=0",
)


@pytest.mark.timeout(900)
def test_every_step_of_the_loop_follows_the_one_before(tmp_path: Path):
    told = loop(tmp_path / "data", Size(steps=2, shown=20, seeds=3, votes=60, overrides=SMALL))
    assert [line.split()[2] for line in told[1:]] == ["1", "2", "3", "4", "5", "6"]
    # 60 are asked, of which a few are repeats and count apart
    assert 50 <= int(told[2].split("judged models, ")[1].split()[0]) <= 60
    # 3 pairs of the 3 samples of each of 20 prompts, and 5 % again: as repeats, or to a second reviewer
    words = told[3].split()
    judged, decided = int(words[words.index("votes,") - 1]), int(words[words.index("choose") - 1])
    assert 60 <= judged <= 63
    assert 16 <= decided <= judged
    (folder,) = (tmp_path / "data" / "votes").iterdir()
    pairs = judged_folder.read(folder)[0]
    assert decided - 6 <= len(pairs.pairs) <= decided  # three pairs have two votes, which may differ
    archive = Archive.model_validate_json((tmp_path / "data" / "votes.json").read_bytes())
    assert all(pair.model_a == pair.model_b == "base" for pair in archive.pairs)
