import numpy as np
import pytest

from backend.moving import prompts
from backend.moving.prompts import Mover, MovingScene
from backend.shapes.prompt_lists import is_held_out


def test_test_list_has_fifty_prompts_a_task_without_repeats():
    listed = prompts.LISTS.test
    assert [sum(item.scene.task == task for item in listed) for task in prompts.TASKS] == [50] * 3
    assert len({item.text for item in listed}) == 150


def test_every_pair_of_content_and_wrapper_belongs_to_one_list_only():
    for task in prompts.TASKS:
        texts = {True: set(), False: set()}
        for content, scene in enumerate(prompts.contents(task)):
            for wrapper, (opener, closer) in enumerate(prompts.WRAPPERS):
                text = " ".join(part for part in (opener, prompts.content_text(scene), closer) if part)
                texts[is_held_out(content, wrapper)].add(text)
        assert texts[True].isdisjoint(texts[False])


def test_no_training_prompt_is_ever_in_the_test_list():
    held_out = {item.text for item in prompts.LISTS.test}
    rng = np.random.default_rng(3)
    assert held_out.isdisjoint(prompts.LISTS.training(rng).text for _ in range(20_000))


def test_world_has_the_expected_number_of_scenes():
    # 4 shapes x 4 ways; x 6 colours; 12 pairs of shapes x 30 of colours x 2 axes x 4 pairs of ways along each
    assert [len(prompts.contents(task)) for task in prompts.TASKS] == [16, 96, 2880]


def test_parse_gives_back_the_scene_of_every_test_prompt():
    for item in prompts.LISTS.test:
        assert prompts.parse(item.text) == item.scene


def test_parse_reads_free_text():
    assert prompts.parse("Look: A RED circle moves left!") == MovingScene(
        "color_move", (Mover("circle", "red", "left"),)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a red circle", "asks for no moving shape"),
        ("a circle moves up and a circle moves down", "names 2 objects"),
        ("a circle moves up and a square moves left", "different axes"),
    ],
)
def test_parse_refuses_what_cannot_be_judged(text, said):
    with pytest.raises(ValueError, match=said):
        prompts.parse(text)
