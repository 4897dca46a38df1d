import numpy as np
import pytest
import torch

from backend.config import RunConfig, parse
from backend.evaluate import Item, report, score
from backend.moving import render as moving_render
from backend.prompts.sources import MovingTrain, held_out
from backend.shapes import render as shapes_render
from backend.worlds import HELD_OUT, MOVING, SHAPES

RENDER = {"shapes-test": lambda *given: shapes_render.render(*given)[None], "moving-test": moving_render.render}


def truths(name, number=12):
    """Frames [N, F, 3, 64, 64] of the first prompts of a world's test list, and the prompts."""
    rng = np.random.default_rng(5)
    listed = HELD_OUT[name].lists.test
    items = listed[:: len(listed) // number][:number]
    frames = np.stack([RENDER[name](item.scene, rng) for item in items])
    return torch.from_numpy(frames).permute(0, 1, 4, 2, 3).float() / 255, items


@pytest.mark.parametrize("name", HELD_OUT)
def test_evaluation_of_a_world_tells_strict_accuracy_and_quality_by_task(name):
    frames, items = truths(name)
    listed = [Item(i, one.text, one.task, 1) for i, one in enumerate(items)]
    reward = {"name": name.removesuffix("-test")}
    config = parse({"method": {"name": "dgpo"}, "evaluation": {"prompts": name}, "rewards": [reward]})
    scores = score(frames, listed, config)
    assert scores["strict"].tolist() == [1.0] * len(items)
    assert scores["quality"].min() > 0.8
    darkness = score(torch.zeros_like(frames), listed, config)
    assert darkness["strict"].max() == 0
    assert set(report_of(listed, scores, frames)["strict_accuracy"]["tasks"]) == {one.task for one in items}


def report_of(listed, scores, frames):
    from backend.evaluate import Evaluated

    return report(Evaluated(listed, scores, range(len(listed)), frames), 0)


@pytest.mark.parametrize(("name", "number"), [("shapes-test", 300), ("moving-test", 150)])
def test_held_out_lists_carry_their_tasks(name, number):
    found = held_out(name)
    assert len(found) == number
    assert {one.task for one in found} == set(HELD_OUT[name].lists.tasks)


def test_training_prompts_of_moving_shapes_take_turns_and_are_a_function_of_seed_and_step():
    source = MovingTrain(per_step=4)
    found = [one for step in range(3) for one in source.batch(7, step)]
    assert [one.task for one in found] == list(MOVING.lists.tasks) * 4
    assert source.batch(7, 2) == found[8:]
    assert source.batch(8, 2) != found[8:]
    held = {one.text for one in held_out("moving-test")}
    assert held.isdisjoint(one.text for step in range(500) for one in source.batch(7, step))


def test_a_list_that_is_none_of_the_worlds_is_refused_with_their_names():
    with pytest.raises(ValueError, match=r"shapes-test, moving-test, or a file"):
        RunConfig(evaluation={"prompts": "moving"})


def test_judging_refuses_a_prompt_of_another_world():
    frames, _ = truths("moving-test", 2)
    with pytest.raises(ValueError, match="asks for no moving shape"):
        MOVING.judge(frames, ["a red circle"] * 2)
    with pytest.raises(ValueError, match="asks for no shape of this world"):
        SHAPES.judge(frames, ["nothing"] * 2)
