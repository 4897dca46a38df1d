from __future__ import annotations

import pytest

from workers.tasks import device_of


def test_one_slot_sees_what_the_worker_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert device_of(0, 1) is None


def test_each_of_several_slots_has_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    assert [device_of(slot, 2) for slot in range(2)] == ["GPU-a", "GPU-b"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert [device_of(slot, 3) for slot in range(3)] == ["0", "1", "2"]
