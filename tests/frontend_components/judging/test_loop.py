"""The whole loop against a real server and worker, as small as it gets."""

from pathlib import Path

import pytest

from frontend_components.judging.loop import Size, loop

SMALL = (
    "sampling.steps=4",
    "sampling.evaluation_steps=4",
    "method.split_steps=[0,1]",
    "prompts.per_step=2",
    "evaluation.limit=40",
    "evaluation.seeds=[1]",
    # so high that two steps make other pictures, which can be told apart
    "optimizer.learning_rate=0.003",
    "optimizer.ema_decay=null",
    "optimizer.warmup=0",
)


@pytest.mark.timeout(900)
def test_every_step_of_the_loop_follows_the_one_before(tmp_path: Path):
    told = loop(tmp_path / "data", Size(steps=2, shown=20, overrides=SMALL))
    assert [line.split()[2] for line in told[1:]] == ["1", "2", "3", "4", "5"]
    assert (tmp_path / "data" / "votes.json").is_file()
    # three models, each two of them on 20 prompts, and 5 % are shown again
    judged = int(told[2].split("judged, ")[1].split()[0])
    assert 60 <= judged <= 63
    assert len(list((tmp_path / "data" / "votes").iterdir())) == 1
