from __future__ import annotations

from pathlib import Path

import pytest

from backend.events import (
    CheckpointSaved,
    EvaluationDone,
    Event,
    EventLog,
    Media,
    Progress,
    RunEnded,
    RunStarted,
    Sample,
    SamplesSaved,
    Sprite,
    StepDone,
    TreeDrawn,
)
from db import artifacts, checkpoints, evaluations, metrics, runs, samples, stream, trees
from db.session import reading, writing
from tests.workers.conftest import queued, row
from workers import ingest as module
from workers.ingest import Batch, Fenced, ingest


@pytest.fixture
def held(data: Path) -> str:
    """A claimed run with its folder."""
    run_id = queued()
    with writing() as session:
        runs.claim(session, run_id, "w1", 60)
    (data / "runs" / run_id).mkdir(parents=True)
    return run_id


def write(data: Path, run_id: str, *events: Event) -> None:
    log = EventLog(data / "runs" / run_id / "events.jsonl")
    for event in events:
        log(event)
    log.close()


def read(run_id: str, attempt: int = 1, moves: bool = True) -> Batch:
    with writing() as session:
        return ingest(session, run_id, attempt, moves=moves)


def kinds(run_id: str) -> list[str]:
    with reading() as session:
        return [notice.kind for notice in stream.after(session, 0, run_id)]


def started(step: int = 0) -> RunStarted:
    return RunStarted(
        start_step=step,
        total_steps=9,
        facts={"device": "cpu"},
        trained_parameters=10,
        total_parameters=20,
        forwards_per_prompt=203,
    )


def step(number: int, **metrics_: float | None) -> StepDone:
    return StepDone(step=number, metrics=metrics_ or {"train/reward_mean": number / 10}, time=1000.0 + number)


def media(letter: str, path: str | None = None, poster: str | None = None) -> Media:
    place = path or f"media/{letter * 2}/{letter * 64}.png"
    return Media(sha256=letter * 64, mime="image/png", width=8, height=8, bytes=9, path=place, poster=poster)


def tree(level: int, advantages: list[list[float]]) -> TreeDrawn:
    return TreeDrawn(
        step=2,
        prompt_index=0,
        prompt="a red circle",
        level=level,
        sigmas=[1.0, 0.0],
        rates=[0.7],
        parents=[[0, 0]],
        logps=[[-1.0, -1.0]],
        advantages=advantages,
        values=[[0.5], [0.0, 1.0]] if advantages else [],
        sprite=Sprite(media=media("5"), cell=8, columns=2, nodes=[(1, 0), (1, 1)]),
    )


def sample(index: int, picture: Media) -> Sample:
    return Sample(prompt_index=index, prompt="p", seed=index, media=picture, scores={"shapes": 0.5}, task="count")


def test_run_folder_without_events_reads_nothing(held: str) -> None:
    assert read(held) == Batch(0)


def test_start_and_steps_fill_the_row(data: Path, held: str) -> None:
    write(data, held, started(), step(0), step(1, **{"train/reward_mean": 0.5, "time/step": 2.0}))
    assert read(held).num_events == 3
    run = row(held)
    assert (run.state, run.step, run.total_steps, run.forwards_per_prompt) == ("running", 1, 9, 203)
    assert (run.last_reward, run.seconds_per_step) == (0.5, 2.0)
    assert run.facts == {"device": "cpu", "trained_parameters": "10", "total_parameters": "20"}
    assert run.heartbeat_at is not None
    assert run.heartbeat_at.timestamp() == 1001.0
    assert kinds(held) == ["state", "state", "state", "step", "step"]  # queued, starting, running


def test_seconds_per_step_are_smoothed(data: Path, held: str) -> None:
    write(data, held, step(0, **{"time/step": 2.0}))
    read(held)
    write(data, held, step(1, **{"time/step": 4.0}), step(2, **{"time/step": None}))
    read(held)
    assert row(held).seconds_per_step == pytest.approx(0.8 * 2.0 + 0.2 * 4.0)


def test_every_line_is_taken_exactly_once_however_it_arrives(data: Path, held: str) -> None:
    write(data, held, started(), step(0), step(1), step(2))
    path = data / "runs" / held / "events.jsonl"
    whole = path.read_bytes()
    cuts = sorted({1, 5, whole.find(b"\n"), whole.find(b"\n") + 1, len(whole) // 2, len(whole) - 1, len(whole)})
    for cut in cuts:
        path.write_bytes(whole[:cut])
        read(held)
        read(held)
        assert row(held).ingest_offset == whole[:cut].rfind(b"\n") + 1
    assert kinds(held).count("step") == 3
    with reading() as session:
        assert metrics.curves(session, held).steps == [0, 1, 2]


def test_a_transaction_that_fails_leaves_rows_and_offset_alone(data: Path, held: str) -> None:
    write(data, held, step(0))

    def fail() -> None:
        with writing() as session:
            ingest(session, held, 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (row(held).ingest_offset, kinds(held).count("step")) == (0, 0)
    read(held)
    assert kinds(held).count("step") == 1


def test_long_files_are_read_in_batches(data: Path, held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 100)  # less than two lines
    write(data, held, *(step(number) for number in range(5)))
    counts = []
    while batch := read(held).num_events:
        counts.append(batch)
    assert sum(counts) == 5
    assert len(counts) > 1


def test_unreadable_lines_are_counted_and_the_rest_is_kept(data: Path, held: str) -> None:
    path = data / "runs" / held / "events.jsonl"
    path.write_bytes(b'{"kind":"step_d\n{"kind":"from_the_future"}\n')
    write(data, held, started(), step(0))
    assert read(held).num_events == 2
    assert row(held).facts["unreadable_events"] == "2"
    path.write_bytes(path.read_bytes() + b"torn\n")
    read(held)
    assert row(held).facts["unreadable_events"] == "3"
    assert row(held).facts["device"] == "cpu"


def test_old_attempts_and_ended_runs_are_refused(data: Path, held: str) -> None:
    write(data, held, step(0))
    with pytest.raises(Fenced, match="attempt 2 does not hold it"):
        read(held, attempt=2)
    with writing() as session:
        runs.move(session, held, "lost", who="reaper")
    with pytest.raises(Fenced):
        read(held)
    assert row(held).ingest_offset == 0


def test_last_word_is_given_back_and_ends_the_phase(data: Path, held: str) -> None:
    write(data, held, started(), Progress(step=0, phase="rollout", done=1, total=4))
    assert read(held).ended is None
    assert (row(held).phase, row(held).phase_done, row(held).phase_total) == ("rollout", 1, 4)
    write(data, held, RunEnded(step=1, outcome="failed", what="nan", where="loss"))
    ended = read(held).ended
    assert ended is not None
    assert (ended.outcome, ended.what) == ("failed", "nan")
    assert (row(held).state, row(held).phase) == ("running", "")  # the supervisor moves it once the process is gone


def test_words_of_an_earlier_attempt_move_nothing(data: Path, held: str) -> None:
    write(data, held, started(), step(0), RunEnded(step=1, outcome="stopped"))
    batch = read(held, moves=False)
    assert (batch.num_events, batch.ended) == (3, None)
    assert row(held).state == "starting"
    assert row(held).step == 0


def test_only_the_newest_progress_and_tree_of_a_batch_are_told(data: Path, held: str) -> None:
    write(data, held, *(Progress(step=2, phase="rollout", done=done, total=3) for done in range(4)))
    write(data, held, tree(0, []), tree(1, [[-1.0, 1.0]]))
    read(held)
    with reading() as session:
        told = [notice for notice in stream.after(session, 0, held) if notice.kind in ("tree", "progress")]
        assert [notice.data for notice in told] == [
            {"step": 2, "prompt_index": 0, "level": 1, "complete": True},
            {"step": 2, "phase": "rollout", "done": 3, "total": 3},
        ]
        assert trees.get(session, held, 2, 0)["advantages"] == [[-1.0, 1.0]]
        assert trees.depth_statistics(session, held)[0].count == 2
        assert artifacts.get(session, "5" * 64).path == f"runs/{held}/media/55/{'5' * 64}.png"


def test_samples_evaluations_checkpoints(data: Path, held: str) -> None:
    report = {"strict_accuracy": {"overall": {"mean": 0.5, "low": 0.4, "high": 0.6}}}
    write(
        data,
        held,
        SamplesSaved(step=3, collection="fixed", samples=[sample(1, media("a")), sample(0, media("b"))]),
        EvaluationDone(step=3, report=report),
        CheckpointSaved(step=3, path="checkpoint-3", bytes=5),
    )
    read(held)
    with reading() as session:
        found = samples.at(session, held, "fixed", 3)
        assert [(one.prompt_index, one.sha256[0], one.scores, one.task) for one in found] == [
            (0, "b", {"shapes": 0.5}, "count"),
            (1, "a", {"shapes": 0.5}, "count"),
        ]
        assert evaluations.listing(session, held)[0].report == report
        assert checkpoints.listing(session, held)[0].path == "checkpoint-3"
    assert kinds(held)[2:] == ["samples", "evaluation", "checkpoint"]


def test_poster_of_a_video_is_found_beside_it(data: Path, held: str) -> None:
    folder = data / "runs" / held / "media" / "ee"
    folder.mkdir(parents=True)
    (folder / f"{'e' * 64}.webp").write_bytes(b"still")
    write(data, held, SamplesSaved(step=0, collection="fixed", samples=[sample(0, media("d", poster="e" * 64))]))
    read(held)
    with reading() as session:
        assert artifacts.get(session, "d" * 64).poster == "e" * 64
        still = artifacts.get(session, "e" * 64)
    assert (still.mime, still.bytes) == ("image/webp", 5)
    assert (data / still.path).read_bytes() == b"still"


@pytest.mark.parametrize("path", ["../../espalier.db", "/etc/passwd"])
def test_media_outside_the_run_is_refused(data: Path, held: str, path: str) -> None:
    write(data, held, SamplesSaved(step=0, collection="fixed", samples=[sample(0, media("a", path))]))
    with pytest.raises(ValueError, match="leaves the run's folder"):
        read(held)
