from pathlib import Path

import pytest

from backend.config import dump, load, preset_path
from backend.events import EventLog, RunEnded, parse
from db import metrics, runs
from db.session import reading
from tests.workers.conftest import row
from tests.workers.test_ingest import started, step
from workers.adopt import adopt


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A run folder of three steps, as `espalier train` leaves it, but for its end."""
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "config.yaml").write_text(dump(load(preset_path("shapes-branchgrpo"))))
    log = EventLog(folder / "events.jsonl")
    for event in (started(), step(1), step(2), step(3)):
        log(event)
    log.close()
    return folder


def test_adopted_run_has_its_settings_curves_end_and_files(data: Path, made: Path):
    log = EventLog(made / "events.jsonl")
    log(RunEnded(step=3, outcome="done"))
    log.close()
    run_id = adopt(made)
    run = row(run_id)
    assert (run.state, run.step, run.total_steps, run.name) == ("done", 3, 9, "BranchGRPO on Shapes")
    assert run.config["method"]["name"] == "branchgrpo"
    assert run.started_at is not None
    assert run.ended_at is not None
    first, last = (parse(line).time for line in (made / "events.jsonl").read_bytes().splitlines()[::4])
    assert (run.started_at.timestamp(), run.ended_at.timestamp()) == pytest.approx((first, last), abs=1e-3)
    with reading() as session:
        assert metrics.curves(session, run_id).steps == [1, 2, 3]
    assert (data / "runs" / run_id / "events.jsonl").read_bytes() == (made / "events.jsonl").read_bytes()


def test_run_without_an_end_can_be_resumed_here(data: Path, made: Path):
    run = row(adopt(made))
    assert (run.state, run.step) == ("stopped", 3)
    assert "no end" in run.state_why


def test_folder_that_is_no_run_is_refused(data: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=r"config\.yaml; give the --out folder"):
        adopt(tmp_path)


def test_an_end_that_was_followed_by_a_new_start_does_not_count(data: Path, made: Path):
    log = EventLog(made / "events.jsonl")
    for event in (RunEnded(step=3, outcome="done"), started(3), step(4)):
        log(event)
    log.close()
    run = row(adopt(made))
    assert (run.state, run.step) == ("stopped", 4)


def test_a_copy_that_fails_leaves_no_run(data: Path, made: Path):
    (made / "media").mkdir()
    (made / "media" / "gone.png").symlink_to(made / "nowhere")
    with pytest.raises(OSError, match="gone"):
        adopt(made)
    with reading() as session:
        assert runs.listing(session) == []
    assert list((data / "runs").glob(".importing-*")) == []
