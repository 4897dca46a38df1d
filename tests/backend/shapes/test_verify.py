import numpy as np
import pytest

from backend.shapes import prompts, render, verify
from backend.shapes.prompts import Scene, Wanted
from backend.shapes.render import Placed, draw


def picture(*objects: Placed) -> np.ndarray:
    return draw(list(objects))[None].astype(np.float32) / 255


@pytest.fixture(scope="module")
def truths():
    rng = np.random.default_rng(11)
    items = [prompts.LISTS.training(rng) for _ in range(3000)]
    pictures = np.stack([render.render(item.scene, rng) for item in items]).astype(np.float32) / 255
    detections = [one for start in range(0, 3000, 250) for one in verify.detect(pictures[start : start + 250])]
    return [item.scene for item in items], pictures, detections


def test_truths_are_called_correct(truths):
    scenes, _, detections = truths
    verdicts = [verify.judge(scene, found) for scene, found in zip(scenes, detections, strict=True)]
    assert np.mean([verdict.strict for verdict in verdicts]) >= 0.995
    assert np.mean([verdict.graded for verdict in verdicts]) >= 0.995


def test_pictures_of_another_scene_are_called_wrong(truths):
    scenes, _, detections = truths
    order = np.random.default_rng(5).permutation(len(scenes))
    pairs = [(scenes[j], detections[i]) for i, j in enumerate(order) if scenes[i] != scenes[j]]
    assert len(pairs) > 2900
    assert np.mean([verify.judge(scene, found).strict for scene, found in pairs]) <= 0.02


def test_quality_of_truths_is_near_one_and_falls_with_blur_and_off_palette_colours(truths):
    _, pictures, _ = truths
    clean = pictures[:200]
    blurred = (clean + np.roll(clean, 1, 1) + np.roll(clean, 1, 2) + np.roll(clean, (1, 1), (1, 2))) / 4
    tinted = np.clip(clean + np.array([0.0, 0.15, 0.0], np.float32), 0, 1)
    assert verify.quality(clean).mean() > 0.95
    assert verify.quality(blurred).mean() < 0.75
    assert verify.quality(tinted).mean() < 0.5
    assert verify.quality(picture()) == 0


def test_strict_needs_exact_counts_colours_and_nothing_else():
    red = Placed("circle", "red", 16, 32, 9)
    blue = Placed("square", "blue", 46, 32, 9)
    scene = Scene("color_attr", (Wanted("circle", "red"), Wanted("square", "blue")))
    swapped = Scene("color_attr", (Wanted("circle", "blue"), Wanted("square", "red")))
    single = Scene("single_object", (Wanted("circle"),))
    found = verify.detect(picture(red, blue))[0]
    assert verify.judge(scene, found) == verify.Verdict(True, 1.0)
    # counts right (1, 1), colours wrong (0, 0), no extras (1): 3 of 5 parts
    assert verify.judge(swapped, found) == verify.Verdict(False, pytest.approx(3 / 5))
    # count right (1), one extra object (1/2): 3/4
    assert verify.judge(single, found) == verify.Verdict(False, pytest.approx(3 / 4))


def test_count_part_falls_linearly_and_never_below_zero():
    ring = [Placed("ring", "white", x, y, 8) for x, y in [(14, 14), (14, 48), (48, 14), (48, 48)]]
    scene = Scene("counting", (Wanted("ring", None, 2),))
    scores = [verify.judge(scene, verify.detect(picture(*ring[:n]))[0]) for n in range(5)]
    # (count part + 1 for no extras) / 2 with count part 1 - |2 - n| / 2
    assert [one.graded for one in scores] == pytest.approx([0.5, 0.75, 1.0, 0.75, 0.5])
    assert [one.strict for one in scores] == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("relation", "x", "y"), [("left of", 12, 32), ("right of", 52, 32), ("above", 32, 12), ("below", 32, 52)]
)
def test_position_holds_in_its_own_direction_only(relation, x, y):
    found = verify.detect(picture(Placed("star", "red", x, y, 9), Placed("circle", "blue", 32, 32, 9)))[0]
    wanted = (Wanted("star"), Wanted("circle"))
    held = [name for name in prompts.RELATIONS if verify.judge(Scene("position", wanted, name), found).strict]
    assert held == [relation]


def test_same_centre_stands_in_no_relation():
    one = verify.Detection("circle", "red", 32, 32, 10, 10, 1.0)
    assert not any(verify.stands(name, one, one) for name in prompts.RELATIONS)


def test_debris_counts_as_an_object_of_unknown_shape():
    bar = picture(Placed("circle", "red", 32, 20, 9))
    bar[0, 50:53, 4:60] = np.array([230, 60, 60]) / 255
    found = verify.detect(bar)[0]
    assert sorted(str(one.shape) for one in found) == ["None", "circle"]
    assert not verify.judge(Scene("single_object", (Wanted("circle"),)), found).strict
