from __future__ import annotations

import json
from pathlib import Path

import pytest

from frontend_components.judging import bench_votes


def test_every_answered_vote_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_DATA", str(tmp_path))
    asked = ["votes", "--reviewers", "3", "--votes", "4", "--pairs", "20", "--think", "0", "--json"]
    assert bench_votes.main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answered"], found["stored"]) == (12, 12)
    assert 0 < found["p50"] <= found["p95"] <= found["p99"] <= found["most"]
    assert list(tmp_path.iterdir()) == []  # it has a folder of its own


def test_more_votes_than_pairs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench_votes.main(["votes", "--votes", "20", "--pairs", "20"])
    assert "fewer votes than pairs" in capsys.readouterr().err


def test_other_measurements_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench_votes.main(["step", "--help"])
    assert "espalier bench step" in capsys.readouterr().out
