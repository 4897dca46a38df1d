from dataclasses import replace

import pytest

from backend.benchmarks import jobs, records
from backend.benchmarks.jobs import Job, interleave, pending, pick, picks
from backend.benchmarks.variants import FULL, QUICK, SEARCH_SEED, VARIANTS

JOB = Job("main", "branchgrpo", "branchgrpo", 0, ("method.eta=0.9",), 60)


def test_groups_take_turns():
    assert interleave(["abc", "de", "f"]) == ["a", "d", "f", "b", "e", "c"]
    assert interleave([]) == []


def test_first_runs_of_all_methods_come_before_any_second_run():
    order = [(job.method, job.seed) for job in jobs.main_jobs(FULL, jobs.picks([], QUICK, None), None)]
    seeds = [seed for _, seed in order]
    assert seeds == sorted(seeds)
    assert order.count(("branchgrpo", 2)) == 1


def test_every_method_has_a_search_of_the_same_size_and_seed():
    found = jobs.search_jobs(FULL, None)
    methods = {job.method for job in found}
    assert {len([job for job in found if job.method == method]) for method in methods} == {4}
    assert {job.seed for job in found} == {SEARCH_SEED}
    assert len({(job.method, job.overrides) for job in found}) == len(found)
    assert jobs.search_jobs(QUICK, None) == []


def test_every_run_of_the_benchmark_has_a_valid_config():
    picked = {one.method: one.candidates(1e-4)[-1] for one in jobs.entrants(None)}
    found = [*jobs.search_jobs(FULL, None), *jobs.main_jobs(FULL, picked, None), *jobs.study_jobs(FULL, picked)]
    assert all(job.config.method.name == job.method for job in found)
    assert len({job.file for job in found}) == len(found)
    assert {job.variant for job in found if job.part == "ablations"} == {
        one.name for one in VARIANTS if one.method in picked
    }


def test_fingerprint_follows_what_decides_the_weights_and_nothing_else():
    same = replace(JOB, part="ablations", variant="other")
    assert same.fingerprint == JOB.fingerprint
    evaluated = replace(JOB, overrides=(*JOB.overrides, "evaluation.limit=6", "name=else"))
    assert evaluated.fingerprint == JOB.fingerprint
    others = [
        replace(JOB, seed=1),
        replace(JOB, seconds=61),
        replace(JOB, overrides=("method.eta=0.8",)),
        replace(JOB, stored_groups=8),
    ]
    assert len({JOB.fingerprint, *(one.fingerprint for one in others)}) == 5


def test_command_repeats_the_run_alone():
    assert JOB.command == (
        "espalier train configs/shapes-branchgrpo.yaml --out DIR --for 60 --clock cpu --set method.eta=0.9 "
        "--set seed=0 --set steps=1000000"
    )
    offline = replace(JOB, overrides=("groups=g",), stored_groups=8).command
    assert offline.startswith(
        "espalier collect configs/shapes-branchgrpo.yaml --groups 8 --set groups=g --set seed=0 && espalier train "
    )


def test_finished_runs_are_skipped_and_others_are_done_in_order(tmp_path, trained):
    second = replace(JOB, seed=1)
    records.write(tmp_path / JOB.file, trained("main", "branchgrpo", fingerprint=JOB.fingerprint))
    assert pending([JOB, second], tmp_path, redo=False) == [second]


def test_a_run_with_other_settings_is_refused_unless_it_is_redone(tmp_path, trained):
    records.write(tmp_path / JOB.file, trained("main", "branchgrpo", fingerprint=replace(JOB, seconds=1).fingerprint))
    with pytest.raises(ValueError, match=r"1 stored runs have other settings.*branchgrpo-seed0\.json; add --redo"):
        pending([JOB], tmp_path, redo=False)
    assert pending([JOB], tmp_path, redo=True) == [JOB]


def searched(trained, scores, method="branchgrpo"):
    (entrant,) = jobs.entrants(method)
    overrides = [job.overrides for job in jobs.search_jobs(FULL, method)]
    found = [
        trained("search", f"{method}-{i}", method=method, overrides=one, end=score or 0.5,
                outcome="failed" if score is None else "done")
        for i, (one, score) in enumerate(zip(overrides, scores, strict=False), start=1)
    ]  # fmt: skip
    return entrant, overrides, found


def test_the_search_picks_the_best_final_accuracy_and_passes_over_failures(trained):
    entrant, overrides, found = searched(trained, [0.6, None, 0.8, 0.7])
    assert pick(found, entrant) == overrides[2]
    assert picks(found, FULL, "branchgrpo") == {"branchgrpo": overrides[2]}


def test_a_stored_run_counts_though_it_wrote_the_same_settings_in_other_words(trained):
    entrant, overrides, found = searched(trained, [0.6, 0.8, 0.7, 0.7])
    told_otherwise = [one.model_copy(update={"overrides": ("method.eta=0.70",)}) for one in found]
    assert pick(told_otherwise, entrant) == overrides[1]


def test_an_unfinished_search_picks_nothing(trained):
    entrant, _, found = searched(trained, [0.6, 0.7, 0.8])
    with pytest.raises(ValueError, match="3 of 4 runs of branchgrpo are there; run `--part search` first"):
        pick(found, entrant)


def test_the_long_run_is_of_the_method_whose_search_came_farthest(trained):
    branch, dance = searched(trained, [0.6, 0.7, 0.8, 0.7])[2], searched(trained, [0.6, 0.81, 0.5, 0.5], "dancegrpo")[2]
    picked = {"branchgrpo": ("a",), "dancegrpo": ("b",)}
    (job,) = jobs.long_jobs(FULL, [*branch, *dance], picked)
    assert (job.method, job.overrides, job.seconds) == ("dancegrpo", ("b",), 2400)
    assert jobs.long_jobs(QUICK, branch, picked) == []


def test_all_methods_stand_on_one_ground(monkeypatch):
    found = jobs.entrants(None)
    jobs.check_ground(found)
    load = jobs.load
    monkeypatch.setattr(
        jobs, "load", lambda path: load(path, ["model.guidance=2"] if path.stem == "shapes-dancegrpo" else [])
    )
    with pytest.raises(ValueError, match=r"these differ: shapes-branchgrpo: .*; shapes-dancegrpo: .*2\.0"):
        jobs.check_ground(found)


def test_unknown_method_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="'ppo' is not a method that is compared; choose one of branchgrpo"):
        jobs.entrants("ppo")
