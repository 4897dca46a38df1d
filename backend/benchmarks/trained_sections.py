"""Sections of the document on training runs: the methods, the long run, the studies, the search, what failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from backend.benchmarks import figures
from backend.benchmarks.evidence import Axis, Evidence, places, reached
from backend.benchmarks.figures import Line, Panel
from backend.benchmarks.markdown import paragraph, section, settings, table
from backend.benchmarks.records import Point, Trained
from backend.benchmarks.statistics import spread
from backend.benchmarks.variants import ENTRANTS, LONG_TARGET, TARGET, TARGETS, VARIANTS, Variant

Height = Callable[[Point], float]
AXES: dict[Axis, str] = {
    "seconds": "CPU seconds of training steps",
    "forwards": "latents through the network",
    "steps": "iterations",
}
REWARD, STRICT = "reward, held out", "strict accuracy, held out"
HEIGHTS: dict[str, Height] = {
    REWARD: lambda point: point.reward,
    "quality, held out": lambda point: point.quality,
    STRICT: lambda point: point.strict,
}


def line(name: str, runs: Sequence[Trained], axis: Axis, height: Height) -> Line:
    return Line(name, tuple((places(run, axis), [height(point) for point in run.evaluations]) for run in runs))


def panels(named: Sequence[tuple[str, Sequence[Trained]]], axis: Axis, target: float) -> list[Panel]:
    """Reward, quality and strict accuracy on one axis; rewards of runs that were trained on the same as the first."""
    same = [(name, runs) for name, runs in named if runs[0].rewards == named[0][1][0].rewards]
    return [
        Panel(
            x_label=AXES[axis],
            y_label=label,
            lines=tuple(line(name, runs, axis, height) for name, runs in (same if label == REWARD else named)),
            level=target if label == STRICT else None,
        )
        for label, height in HEIGHTS.items()
    ]


def average(values: Sequence[float | None], form: str = ".3f") -> str:
    found = spread([value for value in values if value is not None])
    return "" if found is None else found.words(form)


def main(found: Evidence, results: Path) -> str:
    named = [(one.method, runs) for one in ENTRANTS if (runs := found.seeds("main", one.method))]
    if not named:
        return ""
    pictures = []
    for axis, words in AXES.items():
        figures.save(figures.curves(panels(named, axis, TARGET)), results / f"main-{axis}.svg")
        pictures.append(f"![Reward, quality and strict accuracy against {words}](results/main-{axis}.svg)")
    first = named[0][1][0]
    others = {name: runs[0].rewards for name, runs in named if runs[0].rewards != first.rewards}
    told = "".join(f" {name} is trained on {' + '.join(rewards)}." for name, rewards in others.items())
    base = first.evaluations[0]
    head = ("method", "settings", "seeds", "strict accuracy", "quality", "iterations", "s an iteration",
            "latents an iteration (rollout + evaluated + trained)", "memory, MB")  # fmt: skip
    return section(
        f"The methods, {first.budget:g} s each",
        paragraph(
            f"""On the prompts of the evaluations on the way, the base has strict accuracy {base.strict:.3f} and quality
            {base.quality:.3f}. The reward is {" + ".join(first.rewards)}.{told} Latents with guidance count twice.
            Memory is the process's largest resident size."""
        ),
        *pictures,
        table(head, [_main_row(runs) for _, runs in named]),
        "Time until the evaluations on the way reach a strict accuracy, linear between them:",
        table(
            ("method", *(f"{target:.2f}" for target in TARGETS), f"latents to {TARGET:.2f}"),
            [_target_row(runs) for _, runs in named],
        ),
    )


def _main_row(runs: Sequence[Trained]) -> tuple[str, ...]:
    first = runs[0]
    forwards = first.forwards
    return (
        first.method,
        settings(first.overrides, "the preset's"),
        str(len(runs)),
        average([run.strict for run in runs]),
        average([run.quality for run in runs]),
        average([run.steps for run in runs], ".0f"),
        average([run.seconds_per_step for run in runs], ".2f"),
        f"{forwards.total} ({forwards.rollout} + {forwards.evaluated} + {forwards.trained})",
        f"{max(run.peak_memory_bytes for run in runs) / 1e6:.0f}",
    )


def _target_row(runs: Sequence[Trained]) -> tuple[str, ...]:
    def cell(target: float, axis: Axis, unit: str) -> str:
        there = [place for run in runs if (place := reached(run, target, axis)) is not None]
        if not there:
            return f"not reached in {runs[0].budget:.0f} s"
        missing = len(runs) - len(there)
        return average(there, ".0f") + unit + (f", {missing} of {len(runs)} not" if missing else "")

    return (runs[0].method, *(cell(target, "seconds", " s") for target in TARGETS), cell(TARGET, "forwards", ""))


def long(found: Evidence, results: Path) -> str:
    named = [(name, runs) for name in found.variants("long") if (runs := found.seeds("long", name))]
    if not named:
        return ""
    figures.save(figures.curves(panels(named, "seconds", LONG_TARGET)), results / "long.svg")
    rows = []
    for name, runs in named:
        for run in runs:
            time = reached(run, LONG_TARGET)
            when = "not reached" if time is None else f"{time:.0f} s"
            scores = (average([run.strict]), average([run.quality]))
            rows.append((name, f"{run.seconds:.0f}", *scores, when, f"`{run.command}`"))
    head = ("method", "seconds", "strict accuracy", "quality", f"{LONG_TARGET} reached after", "command")
    return section("A long run", "![A long run](results/long.svg)", table(head, rows))


def studies(found: Evidence, results: Path) -> str:
    arms = [(one, runs) for one in VARIANTS if (runs := found.seeds("ablations", one.name))]
    if not arms:
        return ""
    drawn = []
    for study in dict.fromkeys(one.study for one, _ in arms):
        lines = [line(one.name, runs, "seconds", HEIGHTS[STRICT]) for one, runs in arms if one.study == study]
        drawn.append(Panel(AXES["seconds"], STRICT, tuple(lines), title=study))
    figures.save(figures.curves(drawn, shared_legend=False), results / "ablations.svg")
    head = ("study", "variant", "on top of the search's best", "strict accuracy", "quality", "iterations")
    rows = [_study_row(one, runs) for one, runs in arms]
    budget = f"{arms[0][1][0].budget:g} s each, {max(len(runs) for _, runs in arms)} seed(s)."
    return section("Studies", budget, "![Studies](results/ablations.svg)", table(head, rows))


def _study_row(one: Variant, runs: Sequence[Trained]) -> tuple[str, ...]:
    return (
        one.study,
        one.name,
        settings(one.overrides, "nothing"),
        average([run.strict for run in runs]),
        average([run.quality for run in runs]),
        average([run.steps for run in runs], ".0f"),
    )


def search(found: Evidence) -> str:
    runs = [run for run in found.runs if run.part == "search"]
    if not found.runs:
        return ""
    if not runs:
        return section("Search", "None: every method ran with its preset's settings.")
    text = f"""As many runs for every method, {runs[0].budget:g} s each, of a seed of their own. The best final strict
        accuracy decides, and the settings stay for everything above."""
    chosen = {run.method: run.overrides for run in sorted(runs, key=lambda run: run.strict or -1.0)}
    rows = []
    for run in runs:
        score = "failed" if run.strict is None else f"{run.strict:.3f}"
        mark = " (chosen)" if chosen[run.method] == run.overrides else ""
        rows.append((run.method, settings(run.overrides, ""), score + mark))
    return section("Search", paragraph(text), table(("method", "settings", "strict accuracy"), rows))


def failures(found: Evidence) -> str:
    failed = [run for run in found.runs if run.outcome == "failed"]
    if not failed:
        return ""
    rows = [(run.part, run.variant, str(run.seed), run.what, f"`{run.command}`") for run in failed]
    return section("Runs that failed", table(("part", "variant", "seed", "what", "command"), rows))
