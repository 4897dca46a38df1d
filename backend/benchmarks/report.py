"""docs/results.md and its figures, from the stored records alone."""

from __future__ import annotations

from pathlib import Path

from backend.benchmarks import claims, learning, measured_sections, trained_sections
from backend.benchmarks.evidence import Evidence
from backend.benchmarks.markdown import paragraph, section, table
from backend.benchmarks.records import read_all
from backend.benchmarks.variants import Profile


def write(out: Path, profile: Profile) -> Path:
    """Draw the figures into OUT/results/ and write OUT/results.md. Raises ValueError when nothing is stored."""
    results = out / "results"
    found = Evidence(read_all(results))
    if not found.records:
        raise ValueError(f"--out: {results} holds no records; measure something first, or give another folder")
    learnt = results / learning.FILE
    sections = [
        _head(found, profile),
        learnt.read_text(encoding="utf-8").strip() if learnt.is_file() else "",
        _claims(found, profile),
        trained_sections.main(found, results),
        trained_sections.long(found, results),
        measured_sections.iteration(found, results),
        measured_sections.distribution(found),
        trained_sections.studies(found, results),
        trained_sections.search(found),
        trained_sections.failures(found),
    ]
    path = out / "results.md"
    path.write_text("\n\n".join(part for part in sections if part) + "\n", encoding="utf-8")
    return path


def _option(profile: Profile) -> str:
    return " --quick" if profile.name == "quick" else ""


def _head(found: Evidence, profile: Profile) -> str:
    records = found.records
    days = sorted(one.made_on for one in records)
    machines = ", ".join(sorted({f"{one.facts['cores']} cores, {one.facts['device']}" for one in records}))
    revisions = ", ".join(sorted({one.facts["git"] for one in records}))
    versions = ", ".join(sorted({one.facts["torch"] for one in records}))
    warning = """**This is a quick run.** Its budgets are seconds, nothing was searched and every method ran once. It
        shows that the benchmark works; its numbers decide nothing."""
    parts = ["# Results: methods compared on Shapes"]
    if profile.name == "quick":
        parts.append(paragraph(warning))
    return "\n\n".join(
        [
            *parts,
            paragraph(
                f"""Written by `espalier bench methods{_option(profile)}` from the records in `results/`; with
                `--report` it is written again from them. Measured from {days[0]} to {days[-1]} ({machines}; torch
                {versions}; revisions {revisions})."""
            ),
            _ground(profile) if found.runs else "No method has been trained for the comparison yet.",
        ]
    )


def _ground(profile: Profile) -> str:
    return paragraph(
        f"""Every method trains the same base on the same prompts for the same seconds of training steps, one
        thread a run. Two runs share the machine and methods take turns, so that a slow hour hurts all alike.
        The clock is the processor's (CPU seconds), so that waiting for other processes does not count, and
        counts the training steps alone, without loading and evaluation. Evaluations on the way
        use {profile.subset} held-out prompts and one seed, final ones {_final(profile)}. A number with a range
        is the mean over seeds, with the least and the greatest."""
    )


def _final(profile: Profile) -> str:
    return "the same with two" if profile.name == "quick" else "the whole list with two"


def _claims(found: Evidence, profile: Profile) -> str:
    rows = [
        (one.claim, one.paper, one.here, one.holds, f"`{one.command}{_option(profile)}`")
        for one in claims.all_findings(found)
    ]
    text = """A claim holds (yes) or does not (no) when the ranges of the seeds or rounds do not overlap, and is unclear
        when they do or there is one seed alone. A ratio holds when its range also reaches the paper's; a gain short of
        it is smaller."""
    return section("Claims of the papers", paragraph(text), table(("claim", "paper", "here", "holds", "command"), rows))
