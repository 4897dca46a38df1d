from backend import config
from backend.benchmarks import learning


def test_outcome_of_a_real_run_becomes_a_row(small, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(config.dump(small("steps=2")))
    outcome = learning.run_seed(file, 5, tmp_path / "run", ["steps=1"])
    assert outcome.steps == 1
    assert outcome.seed == 5
    rows = learning.table([outcome]).splitlines()
    before, after = (one["strict_accuracy"]["overall"]["mean"] for one in (outcome.before, outcome.after))
    assert rows[2].startswith(f"| 5 | {before:.3f} [")
    assert f"| {after - before:+.3f} |" in rows[2]
    assert [row.split(" | ")[0] for row in rows[6:]] == [
        "| single_object", "| two_object", "| counting", "| colors", "| position", "| color_attr",
    ]  # fmt: skip
    assert config.load(tmp_path / "run" / "config.yaml").seed == 5
