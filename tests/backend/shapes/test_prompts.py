import numpy as np
import pytest

from backend.shapes import prompts
from backend.shapes.prompt_lists import is_held_out


def test_test_list_has_fifty_prompts_a_task_without_repeats():
    listed = prompts.LISTS.test
    assert [sum(item.scene.task == task for item in listed) for task in prompts.TASKS] == [50] * 6
    assert len({item.text for item in listed}) == 300


def test_no_training_prompt_is_ever_in_the_test_list():
    held_out = {item.text for item in prompts.LISTS.test}
    rng = np.random.default_rng(3)
    assert held_out.isdisjoint(prompts.LISTS.training(rng).text for _ in range(20_000))


def test_every_pair_of_content_and_wrapper_belongs_to_one_list_only():
    # the whole world, not a draw: texts of the held-out diagonals against all others
    for task in prompts.TASKS:
        texts = {True: set(), False: set()}
        for content, scene in enumerate(prompts.contents(task)):
            for wrapper, (opener, closer) in enumerate(prompts.WRAPPERS):
                text = " ".join(part for part in (opener, prompts.content_text(scene), closer) if part)
                texts[is_held_out(content, wrapper)].add(text)
        assert texts[True].isdisjoint(texts[False])


def test_world_has_the_expected_number_of_scenes():
    # 6 shapes, 6 colours: 6; 6*5; 6*3; 6*6; 30 pairs * 4 relations; 30 pairs * 30 colour pairs
    assert [len(prompts.contents(task)) for task in prompts.TASKS] == [6, 30, 18, 36, 120, 900]


def test_parse_gives_back_the_scene_of_every_test_prompt():
    for item in prompts.LISTS.test:
        assert prompts.parse(item.text) == item.scene


@pytest.mark.parametrize(
    ("text", "scene"),
    [
        ("A RED circle", prompts.Scene("colors", (prompts.Wanted("circle", "red"),))),
        ("four crosses, please", prompts.Scene("counting", (prompts.Wanted("cross", None, 4),))),
        (
            "a star below a ring",
            prompts.Scene("position", (prompts.Wanted("star"), prompts.Wanted("ring")), "below"),
        ),
    ],
)
def test_parse_reads_free_text(text, scene):
    assert prompts.parse(text) == scene


def test_parse_refuses_a_prompt_outside_the_world():
    with pytest.raises(ValueError, match="a dog"):
        prompts.parse("a dog")
