from __future__ import annotations

import threading
import time
from datetime import timedelta
from itertools import product

import pytest
from sqlalchemy import update

from db import runs, stream
from db.models import Run, utc_now
from db.session import reading, writing


def state_of(run_id: str) -> str:
    with reading() as session:
        return runs.get(session, run_id).state


def put_into(run_id: str, state: str, **values: object) -> None:
    with writing() as session:
        session.execute(update(Run).where(Run.id == run_id).values(state=state, **values))


def test_created_run_is_queued_and_told(run: Run) -> None:
    with reading() as session:
        stored = runs.get(session, run.id)
        notices = stream.after(session, 0, run.id)
    assert (stored.state, stored.state_by, stored.total_steps, stored.attempt) == ("queued", "ada", 5, 0)
    assert [(notice.kind, notice.data["state"]) for notice in notices] == [("state", "queued")]


def test_unknown_run_is_a_lookup_error(database: None) -> None:
    with reading() as session, pytest.raises(LookupError, match="none of this id"):
        runs.get(session, "nobody")


def test_ids_sort_by_time_and_are_uuids_of_version_7() -> None:
    ids = []
    for _ in range(50):
        ids.append(runs.new_id())
        time.sleep(1e-6)
    assert ids == sorted(ids)
    assert all(len(one) == 36 and one[14] == "7" and one[19] in "89ab" for one in ids)
    assert abs(int(ids[0].replace("-", "")[:12], 16) / 1000 - time.time()) < 5


def test_only_one_of_two_claims_wins(run: Run) -> None:
    start, attempts = threading.Barrier(2), []

    def claim(owner: str) -> None:
        start.wait()
        with writing() as session:
            attempts.append(runs.claim(session, run.id, owner, 30))

    claimers = [threading.Thread(target=claim, args=(name,)) for name in ("w1", "w2")]
    for claimer in claimers:
        claimer.start()
    for claimer in claimers:
        claimer.join()
    assert sorted(attempts, key=str) == [1, None]
    with reading() as session:
        stored = runs.get(session, run.id)
    assert stored.state == "starting"
    assert stored.worker in ("w1", "w2")
    assert 25 < (stored.lease_until - utc_now()).total_seconds() <= 30


def test_claim_takes_only_queued_runs(run: Run) -> None:
    for state in set(runs.MOVES) - {"queued"}:
        put_into(run.id, state)
        with writing() as session:
            assert runs.claim(session, run.id, "w", 30) is None, state


def test_every_move_is_in_the_table_or_refused(run: Run) -> None:
    for source, target in product(runs.MOVES, runs.MOVES):
        put_into(run.id, source)
        with writing() as session:
            moved = runs.move(session, run.id, target, who="test", why="because")
        assert moved == (target in runs.MOVES[source]), f"{source} -> {target}"
        assert state_of(run.id) == (target if moved else source)


def test_move_records_when_who_why_and_ends_the_lease(run: Run) -> None:
    with writing() as session:
        runs.claim(session, run.id, "w", 30)
        assert runs.move(session, run.id, "failed", who="w", why="loss is nan", attempt=1)
    with reading() as session:
        stored = runs.get(session, run.id)
        notice = stream.after(session, 0, run.id)[-1]
    assert (stored.state_by, stored.state_why, stored.lease_until) == ("w", "loss is nan", None)
    assert stored.ended_at == stored.state_since
    assert notice.data == {"state": "failed", "why": "loss is nan", "who": "w"}


def test_unknown_state_is_named(run: Run) -> None:
    with writing() as session, pytest.raises(ValueError, match="'finished' is not one of queued"):
        runs.move(session, run.id, "finished", who="test")


def test_old_attempt_is_refused(run: Run) -> None:
    with writing() as session:
        assert runs.claim(session, run.id, "w1", 30) == 1
        runs.move(session, run.id, "lost", who="reaper")
        runs.resume(session, run.id, "ada")
        assert runs.claim(session, run.id, "w2", 30) == 2
        assert not runs.move(session, run.id, "done", who="w1", attempt=1)
        assert not runs.renew(session, run.id, 1, 30)
        assert runs.renew(session, run.id, 2, 30)
        assert runs.move(session, run.id, "running", who="w2", attempt=2)


def test_attempt_that_was_lost_cannot_come_back(run: Run) -> None:
    with writing() as session:
        runs.claim(session, run.id, "w", 30)
        runs.move(session, run.id, "lost", who="reaper")
        assert not runs.renew(session, run.id, 1, 30)
        assert not runs.move(session, run.id, "queued", who="w", attempt=1)


def test_reaper_takes_expired_and_missing_leases_only(database: None) -> None:
    now = utc_now()
    leases = {"expired": now - timedelta(seconds=1), "missing": None, "held": now + timedelta(seconds=9)}
    ids = {}
    with writing() as session:
        for name in leases:
            ids[name] = runs.create(session, name=name, config={}, preset=None).id
    for name, lease in leases.items():
        put_into(ids[name], "running", lease_until=lease, worker="w7")
    with writing() as session:
        assert sorted(runs.reap(session, now)) == sorted([ids["expired"], ids["missing"]])
        assert runs.reap(session, now) == []
    with reading() as session:
        lost = runs.get(session, ids["expired"])
    assert (lost.state, lost.state_by) == ("lost", "reaper")
    assert "w7" in lost.state_why
    assert state_of(ids["held"]) == "running"


@pytest.mark.parametrize(
    ("before", "accepted", "after"),
    [
        ("queued", True, "stopped"),
        ("starting", True, "stopping"),
        ("running", True, "stopping"),
        ("stopping", True, "stopping"),
        ("paused", True, "stopped"),
        ("stopped", False, "stopped"),
        ("done", False, "done"),
        ("failed", False, "failed"),
        ("lost", False, "lost"),
    ],
)
def test_stop_in_each_state(run: Run, before: str, accepted: bool, after: str) -> None:
    put_into(run.id, before)
    with writing() as session:
        assert runs.request_stop(session, run.id, "ada") == accepted
    with reading() as session:
        stored = runs.get(session, run.id)
    assert stored.state == after
    assert (stored.stop_requested_at is not None) == (before in runs.HELD)


def test_stop_overrides_an_earlier_pause_and_a_claim_forgets_both(run: Run) -> None:
    with writing() as session:
        runs.claim(session, run.id, "w", 30)
        runs.request_stop(session, run.id, "ada", into="paused")
        asked = runs.get(session, run.id).stop_requested_at
        runs.request_stop(session, run.id, "ada")
        stored = runs.get(session, run.id)
        assert (stored.stop_into, stored.stop_requested_at) == ("stopped", asked)
        runs.move(session, run.id, "stopped", who="w", attempt=1)
        assert runs.resume(session, run.id, "ada")
        runs.claim(session, run.id, "w", 30)
        stored = runs.get(session, run.id)
    assert (stored.stop_into, stored.stop_requested_at, stored.ended_at) == ("stopped", None, None)


def test_resume_in_each_state(run: Run) -> None:
    for state in runs.MOVES:
        put_into(run.id, state)
        with writing() as session:
            resumed = runs.resume(session, run.id, "ada")
        assert resumed == (state in ("paused", "stopped", "failed", "lost")), state
        assert state_of(run.id) == ("queued" if resumed else state)


def test_leaving_worker_asks_for_its_own_runs_only(database: None) -> None:
    with writing() as session:
        mine, other, asked = (runs.create(session, name=name, config={}, preset=None).id for name in "abc")
        for run_id, worker in ((mine, "w1"), (other, "w2"), (asked, "w1")):
            runs.claim(session, run_id, worker, 30)
        runs.request_stop(session, asked, "ada")
        runs.release(session, "w1")
        found = {run_id: runs.get(session, run_id) for run_id in (mine, other, asked)}
    assert (found[mine].state, found[mine].stop_into) == ("stopping", "queued")
    assert found[other].state == "starting"
    assert found[asked].stop_into == "stopped"  # a person's wish stands


def test_listing_pages_filters_and_searches(database: None) -> None:
    with writing() as session:
        ids = [runs.create(session, name=f"Run {n} 50%", config={}, preset="shapes-dgpo").id for n in range(5)]
    put_into(ids[1], "done")
    with reading() as session:
        first = runs.listing(session, limit=2)
        second = runs.listing(session, limit=2, before=first[-1].id)
        assert [run.id for run in first + second] == ids[:0:-1]
        assert [run.id for run in runs.listing(session, states=["done"])] == [ids[1]]
        assert [run.id for run in runs.listing(session, search="rUN 3")] == [ids[3]]
        assert len(runs.listing(session, search="dgpo")) == 5
        assert len(runs.listing(session, search="50%")) == 5
        assert runs.listing(session, search="5%") == []  # % is a character here, not a pattern


def test_waiting_lists_runs_queued_for_a_while(run: Run) -> None:
    with reading() as session:
        assert runs.waiting(session, utc_now() + timedelta(seconds=1)) == [run.id]
        assert runs.waiting(session, utc_now() - timedelta(seconds=60)) == []
