from __future__ import annotations

from typing import Any

import pytest

from backend.events import TreeDrawn
from db import trees
from db.models import Run, Tree
from db.session import reading, writing


def drawn(prompt_index: int = 0, advantages: list[list[float]] | None = None, level: int = 2) -> dict[str, Any]:
    event = TreeDrawn(
        step=3,
        prompt_index=prompt_index,
        prompt="a red circle",
        level=level,
        sigmas=[1.0, 0.5, 0.0],
        rates=[0.7, 0.0],
        parents=[[0, 0], [0, 1]],
        logps=[[-1.0, -2.0], [None, None]],
        values=[[0.5], [0.0, 1.0], [0.0, 1.0]] if advantages else [],
        advantages=advantages or [],
        keep=[[True, True], [True, False]] if advantages else [],
        rewards=[0.0, 1.0] if advantages else [],
    )
    return event.model_dump(mode="json")


def test_tree_comes_back_as_it_was_drawn(run: Run) -> None:
    tree = drawn(advantages=[[-1.0, 1.0], [-1.0, 1.0]])
    with writing() as session:
        trees.put(session, run.id, tree)
    with reading() as session:
        assert trees.get(session, run.id, 3, 0) == tree
        assert trees.index(session, run.id) == [trees.TreeKey(3, 0, "a red circle", True)]
        with pytest.raises(LookupError, match="no tree was drawn at step 4"):
            trees.get(session, run.id, 4, 0)


def test_growing_tree_has_no_statistics_until_it_is_complete(run: Run) -> None:
    with writing() as session:
        trees.put(session, run.id, drawn(level=1))
    with reading() as session:
        assert trees.index(session, run.id)[0].complete is False
        assert trees.depth_statistics(session, run.id) == []
    with writing() as session:
        trees.put(session, run.id, drawn(advantages=[[-1.0, 1.0], [0.0, 0.0]]))
    with reading() as session:
        assert trees.index(session, run.id)[0].complete is True
        assert [stat.depth for stat in trees.depth_statistics(session, run.id)] == [1, 2]


def test_statistics_pool_the_trees_of_a_step(run: Run) -> None:
    with writing() as session:
        trees.put(session, run.id, drawn(0, [[-1.0, 1.0], [0.0, 0.0]]))
        trees.put(session, run.id, drawn(1, [[2.0, 2.0], [0.0, 0.0]]))
    with reading() as session:
        first = trees.depth_statistics(session, run.id)[0]
    # of -1, 1, 2, 2: mean 1, variance (4 + 0 + 1 + 1) / 4 = 1.5; of values 0, 1, 0, 1: mean 0.5, std 0.5
    assert (first.step, first.depth, first.count) == (3, 1, 4)
    assert first.advantage_mean == pytest.approx(1.0)
    assert first.advantage_std == pytest.approx(1.5**0.5)
    assert (first.advantage_min, first.advantage_max) == (-1.0, 2.0)
    assert (first.value_mean, first.value_std) == (pytest.approx(0.5), pytest.approx(0.5))


def test_blob_is_much_smaller_than_its_json(run: Run) -> None:
    wide = drawn(advantages=[[0.5] * 400, [-0.5] * 400]) | {"values": [[0.5], [0.25] * 400, [0.125] * 400]}
    with writing() as session:
        trees.put(session, run.id, wide)
        stored = session.get_one(Tree, (run.id, 3, 0))
        assert len(stored.data) < 1000
