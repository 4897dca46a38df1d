"""Judged pairs become groups of two: pictures encoded, the better one first with reward 1."""

import numpy as np
import pytest
import torch
from PIL import Image

from backend import flow, groups, judged_groups, matching
from backend.preferences import judged_folder
from backend.rewards.shapes import ShapesReward
from backend.shapes import render
from backend.shapes.prompts import parse
from backend.train import Clock, Trainer
from backend.votes_config import on_votes
from tests.backend.preferences.test_decided import A, B, archive_of

LEVEL = {A: 51, B: 204}  # 0.2 and 0.8 of 255


@pytest.fixture
def folder(tmp_path):
    """Pair 0 is won by A, pair 1 is a tie, pair 2 is won by B; picture A is grey at 0.2, picture B at 0.8."""
    for name, level in LEVEL.items():
        Image.fromarray(np.full((4, 4, 3), level, np.uint8)).save(tmp_path / f"{name}.png")
    votes = [[("left", True, False)], [("tie", True, False)], [("left", False, False)]]
    return judged_folder.write(tmp_path / "votes", archive_of(votes), lambda name: tmp_path / f"{name}.png")


def encoded(folder, out):
    def encode_frames(frames):
        return frames[:, 0, :1, :2, :2]

    return judged_groups.encode(folder, encode_frames, "toy", {"device": "cpu"}, "name: x\n", out)


def test_the_better_picture_of_each_decided_pair_has_reward_one(folder, tmp_path):
    stored = groups.Groups(encoded(folder, tmp_path / "groups"), (ShapesReward(),))
    assert stored.shape == (2, 2, 1, 2, 2)
    assert torch.equal(stored.rewards, torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64))
    assert stored.notes.prompts == ("prompt 0", "prompt 2")
    assert stored.notes.made["left_out"] == "{'tie or both bad': 1}"
    rows = [stored._leaves[row : row + 1][0, :, 0, 0, 0].tolist() for row in range(2)]
    assert rows == [pytest.approx([0.2, 0.8]), pytest.approx([0.8, 0.2])]


def test_groups_that_are_there_are_kept(folder, tmp_path):
    out = encoded(folder, tmp_path / "groups")
    before = (out / groups.NOTES).stat().st_mtime_ns
    assert encoded(folder, out) == out
    assert (out / groups.NOTES).stat().st_mtime_ns == before


def test_votes_that_decide_nothing_are_refused(tmp_path):
    undecided = archive_of([[("tie", True, False)]])
    folder = judged_folder.write(tmp_path / "votes", undecided, lambda name: tmp_path / name)
    with pytest.raises(ValueError, match=r"no pair in .* is decided"):
        encoded(folder, tmp_path / "groups")


@pytest.mark.parametrize("method", ["dpo", "dgpo"])
def test_a_run_moves_towards_the_preferred_pictures(tmp_path, method):
    """16 equal pairs: the picture that was drawn for the prompt, and one of another prompt, which loses."""
    rng = np.random.default_rng(0)
    for name, text in ((A, "a red circle"), (B, "a blue square")):
        Image.fromarray(render.draw(render.place(parse(text), rng))).save(tmp_path / f"{name}.png")
    archive = archive_of([[("left", True, False)]] * 16)
    same = [pair.model_copy(update={"prompt": "a red circle"}) for pair in archive.pairs]
    votes = judged_folder.write(
        tmp_path / "votes", archive.model_copy(update={"pairs": same}), lambda name: tmp_path / f"{name}.png"
    )
    config = on_votes(method, votes, 3, "x", {}, ())
    policy = config.model.load(torch.device("cpu"), 0)
    trainer = Trainer(config, tmp_path / "run", policy, emit=lambda event: None)
    assert (tmp_path / "run" / "groups" / groups.NOTES).is_file()
    assert trainer.forwards_per_prompt(0) == 0
    pair = trainer.replay(0, Clock(), trainer.stored).states[-1][0]

    def gap():
        """How much worse the loser is denoised than the winner, against the base."""
        sigma, eps = torch.full((2,), 0.7), torch.randn(1, *pair.shape[1:], generator=torch.Generator().manual_seed(0))
        cond = policy.encode(["a red circle"] * 2)
        errors = []
        for weights in ("current", "reference"):
            with torch.no_grad():
                v = policy.velocity(flow.noise(pair, eps.expand_as(pair), sigma), sigma, cond, weights)
            errors.append(matching.mean_square(v - (eps - pair)))
        change = errors[0] - errors[1]
        return float(change[1] - change[0])

    for step in range(3):
        trainer.train_step(step, Clock())
    assert gap() > 1e-4
