from collections import Counter

import pytest

from backend.prompts.order import epoch_order, places

SIZES = [(10, 4), (5, 4), (7, 7), (8, 4), (9, 5), (100, 7), (11, 6), (1, 1), (13, 12)]


@pytest.mark.parametrize(("num", "per_step"), SIZES)
def test_each_epoch_is_a_permutation(num: int, per_step: int) -> None:
    taken = [place for step in range(num) for place in places(num, per_step, 3, step)]
    assert len(taken) == num * per_step
    for epoch in range(per_step):
        assert sorted(taken[epoch * num : (epoch + 1) * num]) == list(range(num))


@pytest.mark.parametrize(("num", "per_step"), SIZES)
def test_no_place_is_twice_in_a_step(num: int, per_step: int) -> None:
    for step in range(3 * num):
        assert len(set(places(num, per_step, 0, step))) == per_step


@pytest.mark.parametrize(("num", "per_step"), [(3, 4), (2, 7), (1, 5)])
def test_fewer_prompts_than_a_step_takes_are_used_in_turn(num: int, per_step: int) -> None:
    used: Counter[int] = Counter()
    for step in range(20):
        used.update(places(num, per_step, 0, step))
        assert max(used.values()) - min(used.get(place, 0) for place in range(num)) <= 1
    assert used.total() == 20 * per_step


def test_a_step_depends_on_seed_and_step_alone_so_a_resumed_run_takes_the_same() -> None:
    whole = [places(9, 4, 5, step) for step in range(30)]
    assert [places(9, 4, 5, step) for step in reversed(range(30))] == whole[::-1]
    assert [places(9, 4, 6, step) for step in range(30)] != whole


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(epoch_order(20, 4, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
