"""What the papers claim, beside what was measured here, whichever way it falls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.benchmarks.evidence import Evidence, jitter, mean_height, reached
from backend.benchmarks.records import Trained
from backend.benchmarks.statistics import Spread, compare, paired_ratios, ratios, spread
from backend.benchmarks.variants import LONG_TARGET, TARGET

NOT_MEASURED = "not measured"
COMMAND = "espalier bench methods --part {}"


@dataclass(frozen=True)
class Finding:
    """holds: yes, smaller (a ratio of the right side of 1, but short of the paper's), no, unclear (ranges overlap), or
    not measured. part: of the command."""

    claim: str
    paper: str
    here: str
    holds: str
    part: str

    @property
    def command(self) -> str:
        return COMMAND.format(self.part)


def _verdict(found: Spread | None, paper: float) -> str:
    """Is a ratio above 1, and does its range reach the paper's? A paper's ratio below 1 asks for the opposite side."""
    if found is None:
        return NOT_MEASURED
    low, high = (found.low, found.high) if paper > 1 else (1 / found.high, 1 / found.low)
    if low > 1:
        return "yes" if high >= max(paper, 1 / paper) else "smaller"
    return "no" if high < 1 else "unclear"


def _missing(claim: str, paper: str, part: str) -> Finding:
    return Finding(claim, paper, NOT_MEASURED, NOT_MEASURED, part)


ITERATION_CLAIMS = (
    ("dancegrpo, fraction 1.0", "branchgrpo", "1.4x (698 / 493 s)", 698 / 493),
    ("dancegrpo, fraction 0.6", "branchgrpo", "0.95x (469 / 493 s)", 469 / 493),
    ("dancegrpo, fraction 1.0", "branchgrpo, width pruning", "2.2x (698 / 314 s)", 698 / 314),
    ("dancegrpo, fraction 0.6", "branchgrpo, width pruning", "1.5x (469 / 314 s)", 469 / 314),
    ("dancegrpo, fraction 1.0", "branchgrpo, depth pruning", "2.2x (698 / 314 s)", 698 / 314),
    ("dancegrpo, fraction 0.6", "branchgrpo, depth pruning", "1.5x (469 / 314 s)", 469 / 314),
    ("mixgrpo, window 5", "branchgrpo-mix", "2.0x (289 / 148 s)", 289 / 148),
    ("dancegrpo, fraction 0.6", "branchgrpo-mix", "3.2x (469 / 148 s)", 469 / 148),
    ("dancegrpo, fraction 1.0", "branchgrpo-mix", "4.7x (698 / 148 s)", 698 / 148),
    ("dancegrpo, 81 samples", "branchgrpo, 81 leaves", "> 5x (> 3500 / 680 s)", 3500 / 680),
)


def _iteration(found: Evidence) -> list[Finding]:
    findings = []
    for slow, fast, paper, size in ITERATION_CLAIMS:
        claim, one = f"time per iteration, {slow} / {fast}", found.iterations
        if one is None or slow not in one.seconds or fast not in one.seconds:
            findings.append(_missing(claim, paper, "iteration"))
            continue
        ratio = paired_ratios(one.seconds[slow], one.seconds[fast])
        times = " / ".join(f"{sum(one.seconds[name]) / len(one.seconds[name]):.2f}" for name in (slow, fast))
        findings.append(
            Finding(claim, paper, f"{ratio.words('.2f', 'x')}; {times} s", _verdict(ratio, size), "iteration")
        )
    return findings


def _distribution(found: Evidence) -> Finding:
    claim, paper = (
        "leaves of trees keep the distribution of independent rollouts",
        "near zero: KID 0.0057, MMD^2 0.0067",
    )
    if found.distribution is None:
        return _missing(claim, paper, "distribution")
    null, tree, *_ = found.distribution.distances.values()
    here = (
        f"KID {tree.kid:.5f} ± {tree.kid_std:.5f}, MMD^2 {tree.mmd2:.6f}, one leaf a tree; between two independent "
        f"sets {null.kid:.5f} ± {null.kid_std:.5f}, {null.mmd2:.6f}"
    )
    near = abs(tree.kid - null.kid) <= 2 * null.kid_std
    return Finding(claim, paper, here, "yes" if near else "no", "distribution")


def _above(
    found: Evidence, part: str, better: str, worse: str, what: str, paper: str,
    value: Callable[[Trained], float | None], form: str = ".3f",
) -> Finding:  # fmt: skip
    """Does a number of `better` lie above that of `worse`?"""
    values = [[one for one in map(value, found.seeds(part, variant)) if one is not None] for variant in (better, worse)]
    claim = f"{what}, {better} above {worse}"
    spreads = [spread(one) for one in values]
    if spreads[0] is None or spreads[1] is None:
        return _missing(claim, paper, part)
    here = " against ".join(one.words(form) for one in spreads if one is not None)
    return Finding(claim, paper, here, compare(*values), part)


STRICT = "strict accuracy"
STRICT_CLAIMS = (
    ("leaves-81", "leaves-16", "rises with the leaves (scaling figure)"),
    ("leaves-256", "leaves-81", "rises with the leaves (scaling figure)"),
    ("spread-4", "spread-1", "s = 4 is best"),
    ("spread-4", "spread-2", "s = 4 is best"),
    ("spread-4", "spread-8", "s = 4 is best"),
    ("fusion-path", "fusion-mean", "beta = 1 above beta = 0"),
    ("pruning-depth", "pruning-none", "depth pruning is best in the end"),
    ("pruning-depth", "pruning-parent-top1", "depth pruning is best in the end"),
    ("dgpo-ode", "dgpo-sde", "ODE rollouts above SDE rollouts"),
    ("dgpo-ode", "dgpo-offline", "online above offline"),
    ("vgrpo-x0", "vgrpo-own-pairs", "shared pairs help"),
    ("vgrpo-x0", "vgrpo-any-level", "stratified levels help"),
    ("vgrpo-x0", "vgrpo-plain-errors", "adaptive weighting helps"),
    ("vgrpo-x0", "vgrpo-v", "x-prediction above v"),
    ("vgrpo-v", "vgrpo-eps", "v-prediction above eps, which collapses"),
)
EARLY_CLAIMS = (
    ("splits-dense", "splits-mixed"),
    ("splits-dense", "splits-sparse"),
    ("splits-dense", "splits-late"),
)


def _studies(found: Evidence) -> list[Finding]:
    part = "ablations"
    return [
        *(_above(found, part, a, b, STRICT, paper, lambda run: run.strict) for a, b, paper in STRICT_CLAIMS),
        *(
            _above(found, part, a, b, "accuracy averaged over the run", "early dense splits are fastest", mean_height)
            for a, b in EARLY_CLAIMS
        ),
        *(
            _above(found, part, a, "pruning-parent-top1", "jitter of the reward",
                   "Parent-Top1 has the lowest variance", jitter, ".4f")
            for a in ("pruning-none", "pruning-depth")
        ),
        _above(found, part, "dgpo-ode", "dgpo-all-timesteps", "held-out quality",
               "without the timestep clip quality falls", lambda run: run.quality),
        _above(found, "main", "dgpo", "dpo", STRICT, "DGPO above Diffusion-DPO", lambda run: run.strict),
    ]  # fmt: skip


SPEED_CLAIMS = (
    ("flowgrpo", "dgpo", "about 20x, 30x on GenEval (0.63 to 0.97)", 20.0),
    ("mixgrpo", "vgrpo", "2x", 2.0),
    ("nft", "vgrpo", "3x", 3.0),
)


def speed(slow: Sequence[Trained], fast: Sequence[Trained], target: float, paper: float) -> tuple[str, str]:
    """(words, verdict) of the ratio of times to the target; a bound where the slower never gets there."""
    if not slow or not fast:
        return NOT_MEASURED, NOT_MEASURED
    times = [[reached(run, target) for run in runs] for runs in (slow, fast)]
    done = [[time for time in one if time is not None] for one in times]
    counts = f"reached by {len(done[0])} of {len(slow)} and {len(done[1])} of {len(fast)} seeds"
    if len(done[1]) < len(fast):
        return f"no ratio; {counts} in {fast[0].budget:.0f} s", "unclear"
    mean = sum(done[1]) / len(done[1])
    if len(done[0]) < len(slow):
        bound = min(run.seconds for run in slow) / max(mean, 1e-9)
        return f"> {bound:.1f}x; {counts}", "yes" if bound >= paper else "unclear"
    if min(done[1]) <= 0 or min(done[0]) <= 0:
        return f"no ratio; the base is at {target} already", "unclear"
    found = ratios(done[0], done[1])
    assert found is not None
    return f"{found.words('.1f', 'x')}; {sum(done[0]) / len(done[0]):.0f} / {mean:.0f} s", _verdict(found, paper)


def _speeds(found: Evidence) -> list[Finding]:
    findings = []
    for slow, fast, paper, size in SPEED_CLAIMS:
        words, holds = speed(found.seeds("main", slow), found.seeds("main", fast), TARGET, size)
        findings.append(Finding(f"time to {TARGET:.2f}, {slow} / {fast}", paper, words, holds, "main"))
    return findings


def _long(found: Evidence) -> Finding:
    claim = f"one method reaches {LONG_TARGET} strict accuracy, quality held"
    runs = [run for run in found.runs if run.part == "long" and run.strict is not None]
    if not runs:
        return _missing(claim, "GenEval 0.95 (Flow-GRPO) to 0.97 (DGPO)", "long")
    run = max(runs, key=lambda one: one.strict or 0.0)
    time = reached(run, LONG_TARGET)
    when = "not reached by its evaluations on the way" if time is None else f"after {time / 60:.0f} minutes"
    start, end = run.evaluations[0].quality, run.evaluations[-1].quality
    here = (
        f"{run.method}: {run.strict:.3f} after {run.seconds / 60:.0f} minutes, {LONG_TARGET} {when}; "
        f"quality {start:.3f} before, {end:.3f} after"
    )
    holds = (run.strict or 0.0) >= LONG_TARGET and end >= start
    return Finding(claim, "GenEval 0.95 (Flow-GRPO) to 0.97 (DGPO)", here, "yes" if holds else "no", "long")


def all_findings(found: Evidence) -> list[Finding]:
    return [*_iteration(found), _distribution(found), *_speeds(found), *_studies(found), _long(found)]
