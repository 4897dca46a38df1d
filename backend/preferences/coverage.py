"""Do the intervals hold what they promise? `python -m backend.preferences.coverage` prints the table in docs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from backend.preferences.bradley_terry import rate
from backend.preferences.model_standings import Model, comparisons
from backend.preferences.schedule import schedule
from backend.preferences.simulate import Simulated, World, expected_score, simulate, true_elo
from backend.preferences.standing_record import Estimate

REVIEWERS = 5
PEOPLE = Simulated("", ties=0.1, error=0.1)


@dataclass(frozen=True)
class Scenario:
    """A review set with known truth. spread: of a model's strength over prompts, Elo; the first model is the base."""

    name: str
    ratings: Mapping[str, float]
    prompts: int
    votes_a_pair: int
    seeds: int = 1
    spread: float = 300.0
    reviewer: Simulated = PEOPLE


SCENARIOS = (
    Scenario("equal, 1 vote a prompt, no ties", {"base": 0, "a": 0}, 100, 1, spread=0, reviewer=Simulated("")),
    Scenario("equal, 5 votes a prompt", {"base": 0, "a": 0}, 30, 5),
    Scenario("equal, 5 votes a prompt", {"base": 0, "a": 0}, 100, 5),
    Scenario("three equal, 3 votes a pair", {"base": 0, "a": 0, "b": 0}, 60, 3),
    Scenario("+100, 3 votes on each of 2 seeds", {"base": 0, "a": 100}, 60, 3, seeds=2),
    Scenario("+300, 3 votes a prompt", {"base": 0, "a": 300}, 30, 3),
    Scenario("+600, 1 vote a prompt", {"base": 0, "a": 600}, 50, 1, spread=0, reviewer=Simulated("")),
    Scenario("+100 and +200, 2 votes a pair", {"base": 0, "a": 100, "b": 200}, 100, 2),
)


@dataclass(frozen=True)
class Coverage:
    """Counts over simulations.

    ratings, win_rates   intervals that held the truth, of `intervals` (each model but the base), `comparisons` (each
                         two models)
    decided              comparisons called different
    """

    intervals: int = 0
    ratings: int = 0
    comparisons: int = 0
    win_rates: int = 0
    decided: int = 0


def measure(scenario: Scenario, simulations: int, seed: int) -> Coverage:
    """Simulates, rates and compares as often as asked."""
    world = World(scenario.ratings, scenario.spread)
    base, *others = models = list(scenario.ratings)
    elo = true_elo(world, base, scenario.reviewer)
    people = [Simulated(str(i), scenario.reviewer.ties, scenario.reviewer.error) for i in range(REVIEWERS)]
    intervals = ratings = compared = win_rates = decided = 0
    for number in range(simulations):
        rng = np.random.default_rng((seed, number))
        pairs = schedule(models, range(scenario.prompts), range(scenario.seeds), 0, rng)
        votes = simulate(world, pairs, people, scenario.votes_a_pair, rng)
        found = rate(votes, models, base, rng)
        for model in others:
            intervals += 1
            ratings += _holds(found.rating(model), elo[model])
        for one in comparisons(votes, [Model(model, model) for model in models], found):
            compared += 1
            win_rates += _holds(one.win_rate, expected_score(world, one.model_a, one.model_b, scenario.reviewer))
            decided += one.decided
    return Coverage(intervals, ratings, compared, win_rates, decided)


def _holds(estimate: Estimate | None, truth: float) -> bool:
    return estimate is not None and estimate.low <= truth <= estimate.high


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m backend.preferences.coverage", description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000, help="of each scenario")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| models and votes | prompts | rating intervals hold | win-rate intervals hold | called different |")
    print("|---|---|---|---|---|", flush=True)
    for scenario in SCENARIOS:
        found = measure(scenario, options.simulations, options.seed)
        print(
            f"| {scenario.name} | {scenario.prompts} | {found.ratings / found.intervals:.1%} | "
            f"{found.win_rates / found.comparisons:.1%} | {found.decided / found.comparisons:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
