from __future__ import annotations

from pathlib import Path

from db import runs
from db.session import writing
from tests.workers.conftest import queued, row
from workers.tasks import devices_of, takes


def test_one_slot_sees_what_the_worker_sees() -> None:
    assert devices_of(0, 1, ["4", "5"]) is None
    assert devices_of(1, 2, []) is None


def test_slots_share_the_gpus_evenly() -> None:
    assert [devices_of(slot, 2, ["GPU-a", "GPU-b"]) for slot in range(2)] == ["GPU-a", "GPU-b"]
    assert [devices_of(slot, 2, ["0", "1", "2", "3", "4"]) for slot in range(2)] == ["0,1", "2,3"]
    assert [devices_of(slot, 3, ["0", "1"]) for slot in range(3)] == ["0", "1", "0"]


def test_a_run_larger_than_a_slot_is_left_in_the_queue(data: Path) -> None:
    with writing() as session:
        large = runs.create(session, name="large", config={"steps": 1, "processes": 4}, preset=None).id
    assert not takes(large, 2)
    assert row(large).state == "queued"
    assert takes(large, 4)
    assert takes(queued(), 1)
    assert takes("no run of this id", 1)
