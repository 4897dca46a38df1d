from __future__ import annotations

from pathlib import Path

from workers.log_tail import log_tail


def test_no_log_is_empty(tmp_path: Path) -> None:
    assert log_tail(tmp_path / "log.txt") == ""


def test_long_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("".join(f"line {number:04}\n" for number in range(1000)))
    tail = log_tail(tmp_path / "log.txt", num_bytes=25)
    assert tail == "line 0998\nline 0999\n"  # 25 bytes hold two whole lines of 10 and a part


def test_progress_bar_shows_only_its_last_state(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"start\r\n10%\r50%\r90%\nend \xff")
    assert log_tail(tmp_path / "log.txt") == "start\n90%\nend \ufffd"
