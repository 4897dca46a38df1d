from backend import config
from backend.benchmarks import learning
from backend.benchmarks.learning import Outcome


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


def test_prompts_without_strict_accuracy_have_their_first_reward():
    def report(mean):
        interval = {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}
        return {"rewards": {"clip": interval}, "tasks": {"dogs": {"count": 2, "rewards": {"clip": interval}}}}

    assert learning.table([Outcome(3, 60.4, 10, report(0.25), report(0.5), {})]).splitlines() == [
        "| seed | clip before | clip after | gain | steps | seconds |",
        "|---|---|---|---|---|---|",
        "| 3 | 0.250 [0.150, 0.350] | 0.500 [0.400, 0.600] | +0.250 | 10 | 60 |",
        "",
        "| task | before | after, seed 3 |",
        "|---|---|---|",
        "| dogs | 0.250 | 0.500 |",
    ]
