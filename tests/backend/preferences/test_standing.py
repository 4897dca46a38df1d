import ast
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import backend.preferences
from backend.preferences.model_standings import Model
from backend.preferences.reward_agreement import PairScores
from backend.preferences.schedule import schedule
from backend.preferences.simulate import Simulated, World, simulate, true_elo
from backend.preferences.standing import standing
from backend.preferences.standing_record import Standing
from tests.backend.preferences.votes import vote, votes

MODELS = [Model("base", "base"), Model("tuned", "run 7 step 260", "7", 260)]


def review(world, people, prompts=60, repeats=0.1, votes_a_pair=3):
    rng = np.random.default_rng(0)
    pairs = schedule(list(world.ratings), range(prompts), [0], repeats, rng)
    return simulate(world, pairs, people, votes_a_pair, rng), pairs


def test_a_simulated_review_is_told_whole():
    world = World({"base": 0, "tuned": 200, "best": 500}, spread=100)
    people = [Simulated(name, ties=0.05, error=0.05) for name in ("ann", "bob", "eve")]
    judged, pairs = review(world, people)
    scores = {
        str(place): PairScores({"truth": world.ratings[pair.model_a]}, {"truth": world.ratings[pair.model_b]})
        for place, pair in enumerate(pairs)
    }
    models = [*MODELS, Model("best", "run 7 step 520", "7", 520)]
    found = standing(judged, models, "base", scores)
    # 3 pairs of models x 60 prompts, 3 votes each
    assert (found.pairs, found.prompts, found.votes, found.alpha_pairs) == (180, 60, 540, 180)
    assert [one.key for one in found.models] == ["best", "tuned", "base"]
    assert [one.rank for one in found.models] == [1, 2, 3]
    truth = true_elo(world, "base", people[0])
    for one in found.models:
        assert one.rating.low <= truth[one.key] <= one.rating.high
        assert one.mean_scores["truth"] == pytest.approx(world.ratings[one.key])
    assert found.tie_share == pytest.approx(0.05, abs=0.03)
    assert found.alpha > 0.3
    assert found.self_agreement.repeats == 18 * 3
    (reward,) = found.rewards
    assert reward.accuracy.low > 0.7
    assert [one.votes for one in found.reviewers] == [180, 180, 180]
    assert found.warnings == []


def test_other_aspects_are_left_out():
    judged = votes("bbb") + votes("aa", aspect="quality")
    counts = {name: standing(judged, MODELS, "base", aspect=name).votes for name in ("overall", "quality", "motion")}
    assert counts == {"overall": 3, "quality": 2, "motion": 0}


def test_repeats_do_not_count_as_votes():
    again = vote("a", "9", prompt="0", repeat_of="0")
    once, twice = (standing(judged, MODELS, "base") for judged in (votes("bab"), [*votes("bab"), again]))
    assert twice.self_agreement.repeats == 1
    changed = {"self_agreement": twice.self_agreement, "reviewers": twice.reviewers}
    assert once.model_copy(update=changed) == twice


def test_equal_votes_and_seeds_give_equal_standings():
    assert standing(votes("babb"), MODELS, "base", seed=3) == standing(votes("babb"), MODELS, "base", seed=3)


def test_no_votes_are_a_standing_too():
    found = standing([], MODELS, "base")
    assert (found.votes, found.alpha, found.comparisons, found.rewards) == (0, None, [], [])
    assert found.warnings == ["There are no votes yet."]


@pytest.mark.parametrize("judged", [[], votes("b"), votes("bbbbbbb"), [vote("tie")] * 1, votes("ab" * 20)])
def test_every_standing_survives_json(judged):
    found = standing(judged, MODELS, "base", {"0": PairScores({"r": 1.0}, {"r": 0.0})})
    assert Standing.model_validate(json.loads(found.model_dump_json())) == found


def test_statistics_need_neither_torch_nor_database():
    folder = Path(backend.preferences.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] not in {"torch", "sqlalchemy", "db", "workers", "frontend_components"}
                assert not name.startswith("backend.") or name.startswith("backend.preferences")


def one_model(choices):
    """Two samples of the base each, of which "good" scores the better one higher in three of four pairs."""
    judged = votes(choices, a="base", b="base")
    scores = {
        one.pair: PairScores({"good": one.score_of_a if int(one.pair) % 4 else 0.5}, {"good": 0.5}) for one in judged
    }
    return judged, scores


def test_votes_on_two_samples_of_one_model_rate_no_model():
    between = votes("bbab")
    within = one_model("aaabatab" * 4)[0]
    alone = standing(between, MODELS, "base")
    both = standing([*between, *[replace(one, pair="w" + one.pair) for one in within]], MODELS, "base")
    assert both.models == alone.models
    assert both.comparisons == alone.comparisons
    assert (both.votes, both.of_one_model, alone.of_one_model) == (36, 32, 0)
    assert both.sides.decided == 4 + 28


def test_votes_on_one_model_alone_tell_of_rewards_and_reviewers():
    judged, scores = one_model("ab" * 20)
    found = standing(judged, MODELS[:1], "base", scores)
    (model,) = found.models
    assert (model.outcomes.votes, model.win_rate, found.comparisons) == (0, None, [])
    (reward,) = found.rewards
    # of 40 pairs the 10 whose place is a multiple of 4 have equal scores, which count half
    assert reward.accuracy.value == pytest.approx((30 + 5) / 40)
    assert found.reviewers[0].votes == 40
    assert found.warnings[0].startswith("All votes compare two samples of one model")
    assert not any("no rating" in told for told in found.warnings)
