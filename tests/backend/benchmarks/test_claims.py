import pytest

from backend.benchmarks import claims
from backend.benchmarks.evidence import Evidence, jitter, mean_height, places, reached
from backend.benchmarks.statistics import Spread


def by_claim(found, words):
    (one,) = [finding for finding in claims.all_findings(Evidence(found)) if words in finding.claim]
    return one


def test_without_records_nothing_is_claimed():
    findings = claims.all_findings(Evidence([]))
    assert {one.holds for one in findings} == {"not measured"}
    assert len({one.claim for one in findings}) == len(findings)


def test_time_to_target_is_read_from_the_evaluations(trained):
    # from 0.5 to 0.9 in 100 s: 0.7 after 50 s, 20 of 40 steps, and 20 x 150 latents
    run = trained("main", "dgpo")
    assert reached(run, 0.7) == pytest.approx(50)
    assert reached(run, 0.7, "steps") == pytest.approx(20)
    assert reached(run, 0.7, "forwards") == pytest.approx(3000)
    assert reached(run, 0.95) is None
    assert places(run, "forwards") == [0, 1500, 3000, 4500, 6000]


def test_speed_is_the_ratio_of_the_times_to_the_target(trained):
    slow = [trained("main", "flowgrpo", seed, seconds=seconds) for seed, seconds in enumerate((400, 600))]
    fast = [trained("main", "dgpo", seed, seconds=100) for seed in range(2)]
    found = by_claim([*slow, *fast], "flowgrpo / dgpo")
    # 200 and 300 s against 50 s
    assert (found.here, found.holds) == ("5.0x (4.0 to 6.0); 188 / 38 s", "smaller")


def test_a_method_that_never_arrives_gives_a_bound(trained):
    slow = [trained("main", "flowgrpo", end=0.6)]
    words, holds = claims.speed(slow, [trained("main", "dgpo")], 0.7, paper=2.0)
    assert (words, holds) == ("> 2.0x; reached by 0 of 1 and 1 of 1 seeds", "yes")
    assert claims.speed(slow, [trained("main", "dgpo")], 0.7, paper=20.0)[1] == "unclear"
    words, holds = claims.speed([trained("main", "dgpo")], slow, 0.7, paper=2.0)
    assert (words, holds) == ("no ratio; reached by 1 of 1 and 0 of 1 seeds in 100 s", "unclear")


def test_no_ratio_of_times_where_the_base_is_at_the_target(trained):
    words, holds = claims.speed([trained("main", "a")], [trained("main", "b")], 0.5, paper=2.0)
    assert (words, holds) == ("no ratio; the base is at 0.5 already", "unclear")


def test_iteration_claims_compare_within_rounds(iterations):
    # the fourth variant takes 4 and 8 s, the first 1 and 2 s
    found = claims.all_findings(Evidence([iterations]))[0]
    assert found.claim == "time per iteration, dancegrpo, fraction 1.0 / branchgrpo"
    assert (found.here, found.holds) == ("0.25x (0.25 to 0.25); 1.50 / 6.00 s", "no")


def test_distribution_claim_is_judged_against_the_null(distribution):
    assert by_claim([distribution], "keep the distribution").holds == "yes"
    shifted = {name: one.model_copy(update={"kid": 0.01}) if "one a tree" in name else one
               for name, one in distribution.distances.items()}  # fmt: skip
    assert by_claim([distribution.model_copy(update={"distances": shifted})], "keep the distribution").holds == "no"


def test_studies_compare_final_accuracy_over_seeds(trained):
    runs = [trained("ablations", name, seed, end) for name, ends in
            {"spread-4": (0.8, 0.82), "spread-1": (0.7, 0.75), "spread-8": (0.79, 0.81)}.items()
            for seed, end in enumerate(ends)]  # fmt: skip
    assert by_claim(runs, "spread-4 above spread-1").holds == "yes"
    assert by_claim(runs, "spread-4 above spread-8").holds == "unclear"
    assert by_claim(runs, "spread-4 above spread-2").holds == "not measured"


def test_the_long_run_must_reach_the_target_with_its_quality(trained):
    good = trained("long", "dgpo", end=0.96, seconds=3600.0)
    assert by_claim([good], "reaches 0.95").holds == "yes"
    assert "0.95 after 59 minutes" in by_claim([good], "reaches 0.95").here
    fallen = [point.model_copy(update={"quality": 0.6 - point.step / 1000}) for point in good.evaluations]
    assert by_claim([good.model_copy(update={"evaluations": fallen})], "reaches 0.95").holds == "no"


def test_failed_runs_are_not_evidence(trained):
    assert Evidence([trained("main", "dgpo", outcome="failed")]).seeds("main", "dgpo") == []


def test_mean_height_and_jitter_have_known_values(trained):
    run = trained("main", "dgpo")
    assert mean_height(run) == pytest.approx(0.7)  # halfway from 0.5 to 0.9
    assert jitter(run) == pytest.approx(0.1)  # every change of the reward is 0.1


@pytest.mark.parametrize(
    ("low", "high", "paper", "holds"),
    [
        (1.4, 1.7, 1.4, "yes"),
        (1.4, 2.9, 5.1, "smaller"),
        (0.9, 2.9, 2.0, "unclear"),
        (0.5, 0.9, 2.0, "no"),
        (0.90, 0.97, 0.95, "yes"),
        (0.96, 1.14, 0.95, "unclear"),
    ],
)
def test_ratio_holds_when_its_range_reaches_the_papers(low, high, paper, holds):
    assert claims._verdict(Spread((low + high) / 2, low, high, 3), paper) == holds
