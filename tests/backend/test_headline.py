from backend.headline import headline

INTERVAL = {"mean": 0.5, "low": 0.25, "high": 0.75}


def test_strict_accuracy_stands_for_a_report_that_has_it() -> None:
    report = {"strict_accuracy": {"overall": INTERVAL, "tasks": {}}, "rewards": {"shapes": INTERVAL}}
    assert headline(report) == {"strict accuracy": "0.5000 [0.2500, 0.7500]"}


def test_otherwise_each_reward_does() -> None:
    unknown = {"mean": None, "low": None, "high": None, "failed": 4}
    assert headline({"rewards": {"clip": INTERVAL, "judge": unknown}}) == {
        "clip": "0.5000 [0.2500, 0.7500]",
        "judge": "could not be judged",
    }
