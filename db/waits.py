"""What queued runs wait for, where it is more than a free worker."""

from __future__ import annotations

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from db import stream
from db.models import Run

WAITS = "waits for a worker "


def processes(session: Session, run_id: str) -> int:
    """How many processes a run asks for; 0 when there is no run of this id."""
    run = session.get(Run, run_id)
    return 0 if run is None else _processes(run)


def explain(session: Session, most: int) -> set[str]:
    """Says at each queued run of several processes what it waits for. Returns the ids of those that none can take.

    most  processes that the largest of the live workers takes
    """
    too_large = set()
    for run in session.scalars(select(Run).where(Run.state == "queued")).all():
        needed, why = _processes(run), ""
        if needed > most:
            too_large.add(run.id)
            why = f"{WAITS}that takes {needed} processes; the largest that is alive takes runs of at most {most}"
        elif needed > 1:
            why = f"{WAITS}that takes {needed} processes to be free; one is alive"
        if why == run.state_why or not (why or run.state_why.startswith(WAITS)):
            continue
        queued = update(Run).where(Run.id == run.id, Run.state == "queued")
        if session.scalar(queued.values(state_why=why).returning(Run.id)):
            stream.publish(session, run.id, "state", {"state": "queued", "why": why, "who": run.state_by})
    return too_large


def _processes(run: Run) -> int:
    return int(run.config.get("processes", 1))
