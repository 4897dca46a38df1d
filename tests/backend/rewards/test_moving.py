import numpy as np
import pytest
import torch

from backend.moving import render
from backend.moving.prompts import parse
from backend.rewards.moving import MovingReward
from backend.shapes.render import Placed

PROMPT = "a red circle moves right"


def video(x, shape="circle", y=32.0):
    """Frames [9, 3, 64, 64] of a red shape at these places."""
    frames = render.draw_frames([[Placed(shape, "red", float(at), y, 9.0) for at in x]])
    return torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255


EVEN = np.linspace(16, 44, 9)
VIDEOS = {
    "true": video(EVEN),
    "still": video(np.full(9, 30.0)),
    "backwards": video(EVEN[::-1]),
    "jumps": video(np.where(np.arange(9) < 4, 16.0, 44.0)),
    "another shape": video(EVEN, "square"),
}


def scores(**settings):
    found = MovingReward(**settings).score(torch.stack(list(VIDEOS.values())), [PROMPT] * len(VIDEOS))
    return dict(zip(VIDEOS, found.tolist(), strict=True))


def test_a_true_video_has_1_and_each_way_of_being_wrong_less():
    found = scores()
    assert found.pop("true") == 1.0
    assert all(value < 0.5 for value in found.values()), found


def test_still_frames_are_punished_by_all_rules_but_identity():
    assert {name: scores(measure=name)["still"] for name in ("identity", "direction", "motion", "smoothness")} == {
        "identity": 1.0, "direction": 0.0, "motion": 0.0, "smoothness": 0.0,
    }  # fmt: skip


def test_one_rule_alone_sees_nothing_else():
    assert scores(measure="identity")["backwards"] == 1.0
    assert scores(measure="direction")["jumps"] == 1.0
    assert scores(measure="motion")["jumps"] == pytest.approx(1 / 8)
    assert scores(measure="smoothness")["jumps"] < 0.2


def test_strict_share_mixes_all_or_nothing_with_the_mean_of_the_rules():
    graded, strict = scores(strict_share=0), scores(strict_share=1)
    assert strict == dict.fromkeys(VIDEOS, 0.0) | {"true": 1.0}
    mixed = scores(strict_share=0.25)
    assert mixed == {name: pytest.approx(0.25 * strict[name] + 0.75 * graded[name]) for name in VIDEOS}


def test_videos_too_short_to_show_a_movement_are_refused():
    assert parse(PROMPT)
    with pytest.raises(ValueError, match=r"frames: 1 of a sample"):
        MovingReward().score(VIDEOS["true"][None, :1], [PROMPT])
