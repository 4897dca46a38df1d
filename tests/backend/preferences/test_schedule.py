from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from backend.preferences.schedule import Scheduled, schedule, schedule_seeds, uncertain_first
from backend.preferences.simulate import Simulated, World, simulate
from tests.backend.preferences.votes import vote


def rng(seed=0):
    return np.random.default_rng(seed)


def names(count):
    return [f"m{i}" for i in range(count)]


def met(pair):
    return frozenset((pair.model_a, pair.model_b))


def connected(pairs, models):
    reached = {models[0]}
    while grown := {name for pair in pairs for name in met(pair) if met(pair) & reached} - reached:
        reached |= grown
    return reached == set(models)


def test_every_two_models_meet_once_on_every_prompt_and_seed():
    pairs = schedule(names(4), range(10, 17), [3, 5], 0, rng())
    wanted = {(frozenset(two), p, s) for two in combinations(names(4), 2) for p in range(10, 17) for s in (3, 5)}
    assert Counter((met(one), one.prompt, one.seed) for one in pairs) == Counter(wanted)


@pytest.mark.parametrize("count", range(2, 12))
def test_as_many_pairs_as_models_connect_them_all(count):
    for seed in range(5):
        assert connected(schedule(names(count), range(20), [0], 0, rng(seed))[:count], names(count))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_each_sweep_has_each_two_models_once(count):
    edges = count * (count - 1) // 2
    pairs = schedule(names(count), range(12), [0, 1], 0, rng())
    for start in range(0, len(pairs), edges):
        assert len({met(one) for one in pairs[start : start + edges]}) == edges


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_models_are_a_and_b_equally_often_after_every_sweep(count):
    edges = count * (count - 1) // 2
    pairs = schedule(names(count), range(7), [0], 0, rng())
    lead = dict.fromkeys(names(count), 0)
    for place, pair in enumerate(pairs):
        lead[pair.model_a] += 1
        lead[pair.model_b] -= 1
        if (place + 1) % edges == 0:
            # a model meets count - 1 others a sweep: an even number unless the count is even
            assert max(map(abs, lead.values())) <= (count % 2 == 0)


def test_prompts_of_two_models_are_balanced_at_every_place():
    pairs = schedule(names(3), range(6), [0, 1, 2], 0, rng())
    counts = {frozenset(two): Counter(dict.fromkeys(range(6), 0)) for two in combinations(names(3), 2)}
    for pair in pairs:
        counts[met(pair)][pair.prompt] += 1
        for one in counts.values():
            assert max(one.values()) - min(one.values()) <= 1


def test_one_prompt_does_not_come_twice_in_a_row():
    pairs = schedule(names(3), range(9), [0, 1, 2], 0, rng())
    assert all(a.prompt != b.prompt for a, b in pairwise(pairs))


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_repeats_are_the_asked_share_half_of_them_flipped_and_later(share):
    pairs = schedule(names(3), range(50), [0, 1], share, rng())
    repeats = [(place, one) for place, one in enumerate(pairs) if one.repeat_of is not None]
    # 3 pairs of models x 50 prompts x 2 seeds = 300 first views
    assert len(pairs) - len(repeats) == 300
    assert len(repeats) == 300 * share
    assert abs(sum(one.flipped for _, one in repeats) - len(repeats) / 2) <= 0.5
    for place, one in repeats:
        first = pairs[one.repeat_of]
        assert first.repeat_of is None
        assert Scheduled(one.prompt, one.seed, one.model_a, one.model_b) == first
        assert 0.8 / share <= place - one.repeat_of <= 2.2 / share
    assert len({one.repeat_of for _, one in repeats}) == len(repeats)


def test_repeats_leave_the_order_of_first_views():
    # the generator is asked for the repeats last
    whole = schedule(names(3), range(20), [0], 0.1, rng())
    assert [one for one in whole if one.repeat_of is None] == schedule(names(3), range(20), [0], 0, rng())


def test_equal_seeds_give_equal_schedules_and_other_seeds_others():
    made = [schedule(names(3), range(20), [0], 0.1, rng(seed)) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("models", "prompts", "seeds", "repeats", "word"),
    [
        (["a"], [0], [0], 0, "at least two"),
        (["a", "a"], [0], [0], 0, "models: some are named twice"),
        (["a", "b"], [], [0], 0, "prompts: none"),
        (["a", "b"], [0], [1, 1], 0, "seeds: some are named twice"),
        (["a", "b"], [0], [0], 0.5, "repeats: 0.5"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(models, prompts, seeds, repeats, word):
    with pytest.raises(ValueError, match=word):
        schedule(models, prompts, seeds, repeats, rng())


def open_pairs(*models):
    return [Scheduled(number, 0, *two) for number, two in enumerate(models)]


def test_without_votes_uncertain_first_keeps_the_balance_of_the_schedule():
    pairs = schedule(names(4), range(10), [0], 0, rng())
    order = uncertain_first(pairs, [])
    assert sorted(order) == list(range(60))
    # six pairs of models, each once in every sweep
    for start in range(0, 60, 6):
        assert len({met(pairs[place]) for place in order[start : start + 6]}) == 6


def test_models_that_met_seldom_go_first():
    judged = [vote("ab"[n % 2], str(n)) for n in range(40)] + [vote("ab"[n % 2], str(n), b="third") for n in range(4)]
    pairs = open_pairs(("base", "tuned"), ("third", "base"), ("base", "tuned"), ("third", "base"))
    assert uncertain_first(pairs, judged) == [1, 3, 0, 2]


def test_models_of_like_strength_go_before_those_far_apart():
    # each two have met 30 times; only base and tuned are alike
    judged = [vote("ab"[n % 2], str(n)) for n in range(30)]
    judged += [vote("b" if n else "a", str(n), a=model, b="best") for model in ("base", "tuned") for n in range(30)]
    pairs = open_pairs(("base", "best"), ("tuned", "best"), ("base", "tuned"))
    assert uncertain_first(pairs, judged, count=1) == [2]


def test_uncertain_first_makes_ratings_more_certain_than_the_schedule_does():
    def log_determinant(pairs, theta):
        information = np.full((5, 5), 1e-3)
        for pair in pairs:
            i, j = (int(name[1]) for name in (pair.model_a, pair.model_b))
            weight = 1 / (2 + 2 * np.cosh(theta[i] - theta[j]))
            step = np.eye(5)[i] - np.eye(5)[j]
            information += weight * np.outer(step, step)
        return np.linalg.slogdet(information)[1]

    ratings = {f"m{i}": 250.0 * i for i in range(5)}
    pairs = schedule(names(5), range(40), [0], 0, rng())
    begun, rest = pairs[:100], pairs[100:]
    judged = simulate(World(ratings), begun, [Simulated("ann")], 1, rng())
    chosen = [rest[place] for place in uncertain_first(rest, judged, count=100)]
    theta = np.array(list(ratings.values())) / 173.7
    assert log_determinant(begun + chosen, theta) > log_determinant(begun + rest[:100], theta) + 0.2


def test_repeats_among_the_votes_do_not_count():
    judged = [vote("a", "0"), *(vote("a", str(n), prompt="0", repeat_of="0") for n in range(1, 30))]
    pairs = open_pairs(("base", "tuned"), ("base", "third"), ("tuned", "third"))
    assert uncertain_first(pairs, judged) == uncertain_first(pairs, judged[:1])


def test_every_two_seeds_of_each_prompt_meet_once():
    seeds = {4: [1, 2, 7], 5: [3, 1], 6: [9]}
    pairs = schedule_seeds("base", seeds, 0, rng())
    wanted = {(4, frozenset(two)) for two in combinations([1, 2, 7], 2)} | {(5, frozenset({1, 3}))}
    assert {(one.prompt, frozenset({one.seed, one.seed_b})) for one in pairs} == wanted
    assert len(pairs) == len(wanted)
    assert {(one.model_a, one.model_b) for one in pairs} == {("base", "base")}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_any_beginning_of_pairs_of_one_model_is_balanced(count):
    """As many pairs as a sweep has connect all seeds; prompts, and A and B, are met equally often."""
    seeds = list(range(10, 10 + count))
    edges = count * (count - 1) // 2
    pairs = schedule_seeds("base", dict.fromkeys(range(6), seeds), 0, rng())
    as_models = [replace(one, model_a=str(one.seed), model_b=str(one.seed_b)) for one in pairs]
    assert connected(as_models[:edges], [str(seed) for seed in seeds])
    lead = dict.fromkeys(seeds, 0)
    for place, one in enumerate(pairs, 1):
        lead[one.seed] += 1
        lead[one.seed_b] -= 1
        if place % edges == 0:
            assert max(map(abs, lead.values())) <= 1
    assert set(Counter(one.prompt for one in pairs).values()) == {edges}


def test_pairs_of_one_model_are_shown_again_as_they_were():
    pairs = schedule_seeds("base", {prompt: [1, 2] for prompt in range(40)}, 0.1, rng())
    repeats = [one for one in pairs if one.repeat_of is not None]
    assert (len(pairs), len(repeats), sum(one.flipped for one in repeats)) == (44, 4, 2)
    for one in repeats:
        assert replace(one, repeat_of=None, flipped=False) == pairs[one.repeat_of]
    assert pairs == schedule_seeds("base", {prompt: [1, 2] for prompt in range(40)}, 0.1, rng())


def test_prompts_of_one_seed_give_no_pair():
    with pytest.raises(ValueError, match="no prompt has two of them"):
        schedule_seeds("base", {1: [5], 2: [6]}, 0, rng())
    with pytest.raises(ValueError, match=r"repeats: 0\.5"):
        schedule_seeds("base", {1: [5, 6]}, 0.5, rng())
