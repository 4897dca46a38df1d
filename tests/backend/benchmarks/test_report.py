from dataclasses import replace

import pytest

from backend.benchmarks import records, report
from backend.benchmarks.variants import QUICK


def fill(results, *found):
    for number, one in enumerate(found):
        records.write(results / f"{number}.json", one)


def test_document_says_what_the_records_say(tmp_path, profile, trained, iterations, distribution):
    fill(
        tmp_path / "results",
        *(trained("main", method, seed) for method in ("branchgrpo", "dgpo") for seed in range(2)),
        trained("search", "dgpo-1", method="dgpo", end=0.6, overrides=("method.beta=30",)),
        trained("search", "dgpo-2", method="dgpo", end=0.8, overrides=("method.beta=100",)),
        trained("ablations", "fusion-mean", method="branchgrpo"),
        trained("long", "dgpo", end=0.96, seconds=3600.0),
        trained("main", "refl", rewards=("nearest_truth",)),
        trained("main", "dpo", outcome="failed", what="loss became NaN"),
        iterations,
        distribution,
    )
    text = report.write(tmp_path, profile).read_text()
    assert "| dgpo | the preset's | 2 | 0.900 (0.900 to 0.900) | 0.600 (0.600 to 0.600) | 40 (40 to 40) |" in text
    assert "| dgpo | 25 (25 to 25) s | 38 (38 to 38) s | 50 (50 to 50) s | 2250 (2250 to 2250) |" in text
    assert "| dgpo | `method.beta=100` | 0.800 (chosen) |" in text
    assert "| fusion | fusion-mean | `method.fusion_beta=0.0` | 0.900 | 0.600 | 40 |" in text
    assert "loss became NaN" in text
    assert "The reward is shapes. refl is trained on nearest_truth." in " ".join(text.split())
    assert "quick run" not in text
    for name in ("main-seconds", "main-forwards", "main-steps", "iteration", "ablations", "long"):
        assert f"(results/{name}.svg)" in text
        assert (tmp_path / "results" / f"{name}.svg").read_text().startswith("<?xml")


def test_the_same_records_give_the_same_files(tmp_path, profile, trained):
    fill(tmp_path / "results", *(trained("main", "branchgrpo", seed) for seed in range(2)))
    first = report.write(tmp_path, profile).read_bytes(), (tmp_path / "results" / "main-steps.svg").read_bytes()
    assert first == (
        report.write(tmp_path, profile).read_bytes(),
        (tmp_path / "results" / "main-steps.svg").read_bytes(),
    )


def test_document_quotes_what_the_preset_learns(tmp_path, profile, trained):
    fill(tmp_path / "results", trained("main", "branchgrpo"))
    assert "What the preset learns" not in report.write(tmp_path, profile).read_text()
    (tmp_path / "results" / "learning.md").write_text("## What the preset learns: one\n\n| seed |\n")
    assert "## What the preset learns: one\n\n| seed |" in report.write(tmp_path, profile).read_text()


def test_quick_document_says_so(tmp_path, trained):
    fill(tmp_path / "results", trained("main", "branchgrpo"))
    text = report.write(tmp_path, replace(QUICK)).read_text()
    assert "**This is a quick run.**" in text
    assert "`espalier bench methods --part main --quick`" in text
    assert "every method ran with its preset's settings" in text


def test_document_claims_nothing_of_methods_that_were_not_trained(tmp_path, profile, iterations):
    fill(tmp_path / "results", iterations)
    text = report.write(tmp_path, profile).read_text()
    assert "No method has been trained for the comparison yet." in text
    assert "Every method trains" not in text
    assert "every method ran with" not in text


def test_nothing_stored_is_an_error(tmp_path, profile):
    with pytest.raises(ValueError, match="holds no records"):
        report.write(tmp_path, profile)
