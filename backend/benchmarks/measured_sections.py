"""Sections of the document on measurements without training: time per iteration, distribution of leaves."""

from __future__ import annotations

from pathlib import Path

from backend.benchmarks import figures
from backend.benchmarks.evidence import Evidence
from backend.benchmarks.markdown import paragraph, section, table
from backend.benchmarks.records import Iterations
from backend.benchmarks.statistics import spread


def iteration(found: Evidence, results: Path) -> str:
    one = found.iterations
    if one is None:
        return ""
    figures.save(figures.bars(one.seconds, "seconds an iteration"), results / "iteration.svg")
    rounds = len(next(iter(one.seconds.values())))
    text = f"""The papers' grid of 20 steps, one prompt an iteration, one thread, {rounds} rounds in which the variants
        take turns. NFE counts latents through the network for each sample. Made by `{one.command}`."""
    head = ("variant", "s an iteration", "NFE without gradient", "NFE with gradient")
    rows = [_iteration_row(one, name) for name in one.seconds]
    picture = "![Seconds an iteration](results/iteration.svg)"
    return section("Time per iteration", paragraph(text), picture, table(head, rows))


def _iteration_row(one: Iterations, name: str) -> tuple[str, ...]:
    forwards, samples, seconds = one.forwards[name], one.num_samples[name], spread(one.seconds[name])
    assert seconds is not None
    without = (forwards.rollout + forwards.evaluated) / samples
    return name, seconds.words(".2f"), f"{without:.2f}", f"{forwards.trained / samples:.2f}"


def distribution(found: Evidence) -> str:
    one = found.distribution
    if one is None:
        return ""
    text = f"""{one.num_samples} samples a set, compared with one set of independent rollouts of the same prompts by the
        features of a small network that names the coloured shapes of a picture (all of them right in {one.accuracy:.1%}
        of unseen pictures). The first row is the null: what two independent sets differ by. Leaves of one tree share a
        prefix, so that a set of all leaves holds fewer independent samples than its size, as a set of rollouts from
        shared noise does. ± is the standard deviation over KID's subsets. Made by `{one.command}`."""
    rows = [(name, f"{d.kid:.5f} ± {d.kid_std:.5f}", f"{d.mmd2:.6f}") for name, d in one.distances.items()]
    return section("Do trees change the distribution?", paragraph(text), table(("set", "KID", "MMD^2 (RBF)"), rows))
