"""Videos that are true are called so; each way of being wrong costs the part that names it."""

from dataclasses import replace

import numpy as np
import pytest

from backend.moving import prompts, render, verify
from backend.moving.prompts import Mover, MovingScene, parse

RIGHT = parse("a red circle moves right")


def path(shape="circle", color="red", start=(16.0, 32.0), step=(3.5, 0.0), frames=9):
    return [
        render.Placed(shape, color, start[0] + number * step[0], start[1] + number * step[1], 9.0)
        for number in range(frames)
    ]


def judged(scene, *paths, order=None):
    video = render.draw_frames(list(paths))[None].astype(np.float32) / 255
    return verify.verify(video if order is None else video[:, order], [scene])[0]


@pytest.fixture(scope="module")
def truths():
    rng = np.random.default_rng(11)
    items = [prompts.LISTS.training(rng) for _ in range(150)]
    videos = np.stack([render.render(item.scene, rng) for item in items]).astype(np.float32) / 255
    return [item.scene for item in items], videos


def test_truths_are_called_correct(truths):
    scenes, videos = truths
    assert all(verdict.strict and verdict.graded == 1 for verdict in verify.verify(videos, scenes))


def test_videos_of_another_scene_are_called_wrong(truths):
    scenes, videos = truths
    others = np.roll(np.arange(len(scenes)), 1)
    wrong = [verdict.strict for verdict in verify.verify(videos, [scenes[other] for other in others])]
    differ = [scenes[other] != scene for other, scene in zip(others, scenes, strict=True)]
    # "a circle moves up" is also true of "a red circle moves up", and such neighbours are rare
    assert np.mean([is_wrong for is_wrong, is_other in zip(wrong, differ, strict=True) if is_other]) <= 0.02


def test_backwards_is_another_direction(truths):
    scenes, videos = truths
    for verdict in verify.verify(np.ascontiguousarray(videos[:, ::-1]), scenes):
        assert (verdict.strict, verdict.parts.identity, verdict.parts.direction) == (False, 1.0, 0.0)


def test_an_even_path_has_all_parts():
    assert judged(RIGHT, path()) == verify.Verdict(True, verify.Parts(1.0, 1.0, 1.0, 1.0))


def test_a_still_video_has_identity_and_no_motion():
    verdict = judged(RIGHT, path(step=(0.0, 0.0)))
    assert verdict == verify.Verdict(False, verify.Parts(1.0, 0.0, 0.0, 0.0))
    assert verdict.graded == 0.25


def test_a_frame_that_stands_still_is_punished():
    verdict = judged(RIGHT, path(), order=[0, 1, 2, 2, 3, 4, 5, 6, 7])
    assert not verdict.strict
    assert verdict.parts.motion == 7 / 8
    assert verdict.parts.direction == 1


def test_jerks_cost_smoothness_alone():
    jerky = [replace(one, x=one.x + (2.0 if number % 2 else 0.0)) for number, one in enumerate(path())]
    verdict = judged(RIGHT, jerky)
    assert not verdict.strict
    assert (verdict.parts.identity, verdict.parts.direction, verdict.parts.motion) == (1, 1, 1)
    assert 0.4 < verdict.parts.smoothness < 0.8


def test_a_short_way_and_a_slanting_one_are_half_a_direction():
    assert judged(RIGHT, path(step=(1.0, 0.0))).parts.direction == 8 / 16
    # aside as far as along, where a quarter of it is allowed
    assert judged(RIGHT, path(step=(3.5, 3.5), start=(16, 16))).parts.direction == pytest.approx(0.25, abs=0.02)


def test_a_colour_that_changes_breaks_identity_of_a_named_colour_and_the_track_of_any():
    changing = [replace(one, color="red" if number < 6 else "blue") for number, one in enumerate(path())]
    assert judged(RIGHT, changing).parts.identity == pytest.approx(6 / 9)
    assert judged(parse("a circle moves right"), changing).parts.identity == pytest.approx(6 / 9)


def test_an_object_that_was_not_asked_for_breaks_identity_alone():
    verdict = judged(RIGHT, path(), path("square", "blue", start=(16, 54), step=(0, 0)))
    assert verdict == verify.Verdict(False, verify.Parts(0.0, 1.0, 1.0, 1.0))


def test_two_objects_are_judged_each_on_its_way():
    scene = parse("a red circle moves right and a blue square moves left")
    circle, square = path(start=(16, 16)), path("square", "blue", start=(48, 48), step=(-3.5, 0))
    assert judged(scene, circle, square).strict
    half = judged(scene, circle, square[::-1])
    assert (half.strict, half.parts.identity, half.parts.direction) == (False, 1.0, 0.5)
    swapped = MovingScene("two_move", (Mover("circle", "blue", "right"), Mover("square", "red", "left")))
    assert judged(swapped, circle, square).graded == 0


def test_a_frame_without_the_object_costs_its_share():
    gone = path()
    gone[4] = replace(gone[4], color="white")
    verdict = judged(RIGHT, gone)
    assert verdict.parts == verify.Parts(*[pytest.approx(8 / 9)] * 4)


def test_pictures_are_refused():
    with pytest.raises(ValueError, match="show no movement"):
        verify.verify(np.zeros((1, 1, 64, 64, 3), np.float32), [RIGHT])


def test_quality_is_the_frames_mean(truths):
    _, videos = truths
    blurred = (videos + np.roll(videos, 1, 2) + np.roll(videos, 1, 3) + np.roll(videos, (1, 1), (2, 3))) / 4
    clean = verify.quality(videos[:30])
    assert clean.mean() > 0.95
    half = np.concatenate([videos[:30, :4], blurred[:30, 4:]], 1)
    assert verify.quality(blurred[:30]).mean() < verify.quality(half).mean() < clean.mean()
