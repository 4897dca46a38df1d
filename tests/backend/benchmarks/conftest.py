import pytest

from backend.benchmarks.records import Distance, Distribution, Forwards, Iterations, Point, Trained
from backend.benchmarks.variants import ITERATIONS, Profile

FACTS = {"git": "abc1234", "device": "cpu (test)", "cores": "2", "torch": "2.12"}
STORED = {"fingerprint": "0", "command": "espalier bench", "facts": FACTS}


def report(strict, quality=0.6):
    interval = {"mean": strict, "low": strict, "high": strict}
    return {"strict_accuracy": {"overall": interval, "tasks": {}}, "quality": interval | {"mean": quality}}


@pytest.fixture
def trained():
    """A run whose held-out strict accuracy rises evenly from 0.5 to `end` in `seconds`."""

    def make(part, variant, seed=0, end=0.9, seconds=100.0, method=None, outcome="done", **changes):
        points = [
            Point(step=10 * i, seconds=seconds * i / 4, strict=0.5 + (end - 0.5) * i / 4, quality=0.6, reward=0.7)
            for i in range(5)
        ]
        facts = {
            "part": part,
            "variant": variant,
            "method": method or variant,
            "seed": seed,
            "overrides": (),
            "rewards": ("shapes",),
            "budget": 100.0,
            "outcome": outcome,
            "steps": 40,
            "seconds": seconds,
            "wall_seconds": 120.0,
            "cpu_seconds": 110.0,
            "peak_memory_bytes": 500_000_000,
            "forwards": Forwards(rollout=100, evaluated=0, trained=50),
            "training": [(seconds * i / 4, 0.5 + 0.1 * i) for i in range(5)],
            "evaluations": points,
            "final": report(end) if outcome == "done" else None,
        }
        return Trained(**(STORED | facts | changes))

    return make


@pytest.fixture
def iterations():
    names = [one.name for one in ITERATIONS]
    return Iterations(
        **STORED,
        seconds={name: [1.0 + i, 2.0 + 2 * i] for i, name in enumerate(names)},
        forwards={name: Forwards(rollout=320, evaluated=0, trained=160) for name in names},
        num_samples=dict.fromkeys(names, 16),
    )


@pytest.fixture
def distribution():
    distances = {
        "independent rollouts, another draw": Distance(kid=0.0001, kid_std=0.0004, mmd2=0.00001),
        "leaves of trees, one a tree": Distance(kid=0.0002, kid_std=0.0004, mmd2=0.00002),
        "leaves of trees, all": Distance(kid=0.01, kid_std=0.001, mmd2=0.002),
    }
    return Distribution(**STORED, num_samples=64, accuracy=0.9, distances=distances)


@pytest.fixture
def profile():
    """A full benchmark in little: a search, two seeds, a long run."""
    return Profile("full", 1, 1, 2, 1, 1, 1, 2, rounds=2, num_samples=32, subset=6, points=2)
