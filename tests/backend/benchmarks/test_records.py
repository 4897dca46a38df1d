import pytest

from backend.benchmarks import records


def test_records_come_back_as_they_were(tmp_path, trained, iterations, distribution):
    for number, one in enumerate((trained("main", "dgpo"), iterations, distribution)):
        records.write(tmp_path / "part" / f"{number}.json", one)
    found = records.read_all(tmp_path)
    assert found == [trained("main", "dgpo"), iterations, distribution]
    assert records.of(records.Trained, found) == [trained("main", "dgpo")]
    assert not list(tmp_path.rglob("*.writing"))


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ValueError, match=r"a\.json is not a benchmark record"):
        records.read_all(tmp_path)


def test_long_curves_are_thinned_to_means_of_neighbours():
    points = [(float(i), float(i % 2)) for i in range(12)]
    assert records.thinned(points, most=3) == [(1.5, 0.5), (5.5, 0.5), (9.5, 0.5)]
    assert records.thinned(points, most=12) == points
    assert records.thinned([], most=3) == []


def test_numbers_that_are_missing_stay_missing(trained):
    failed = trained("main", "dgpo", outcome="failed")
    assert failed.strict is None
    assert failed.quality is None
    assert trained("main", "dgpo").seconds_per_step == 100 / 40
