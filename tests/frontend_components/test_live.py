import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from db import runs, stream
from db.session import writing
from frontend_components import live
from frontend_components.live import Change, Hub, coalesce, follow
from tests.frontend_components import demo


def new_run() -> str:
    with writing() as session:
        return runs.create(session, name="streamed", config=demo.CONFIG, preset=None).id


def publish(run_id: str, *notices: tuple[str, dict]) -> None:
    with writing() as session:
        for kind, data in notices:
            stream.publish(session, run_id, kind, data)


async def take(events: AsyncIterator[str], count: int) -> list[str]:
    return [await asyncio.wait_for(anext(events), 10) for _ in range(count)]


def kinds(messages: list[str]) -> list[str]:
    return [line.removeprefix("event: ") for text in messages for line in text.splitlines() if line.startswith("event")]


def id_of(message: str) -> int:
    return next(int(line[4:]) for line in message.splitlines() if line.startswith("id: "))


def test_only_the_newest_progress_of_a_batch_is_sent():
    changes = [
        Change(1, "a", "progress", {"done": 1}),
        Change(2, "a", "step", {"step": 1}),
        Change(3, "a", "progress", {"done": 2}),
        Change(4, "b", "progress", {"done": 1}),
        Change(5, "a", "step", {"step": 2}),
        Change(6, "a", "tree", {"step": 1, "prompt_index": 0, "level": 3}),
        Change(7, "a", "tree", {"step": 1, "prompt_index": 0, "level": 6}),
        Change(8, "a", "tree", {"step": 1, "prompt_index": 1, "level": 6}),
    ]
    assert [change.id for change in coalesce(changes)] == [2, 3, 4, 5, 7, 8]


def test_a_page_hears_its_own_run_and_resumes_without_a_gap(data: Path):
    mine, other = new_run(), new_run()

    async def listen() -> None:
        hub = Hub()
        events = follow(hub, mine, None)
        assert kinds(await take(events, 1)) == ["hello"]
        publish(other, ("step", {"step": 1}))
        publish(mine, ("step", {"step": 1}), ("checkpoint", {"step": 1}))
        heard = await take(events, 2)
        assert kinds(heard) == ["step", "checkpoint"]
        await events.aclose()
        assert hub.pages == set()
        assert hub.poller is None

        publish(mine, ("step", {"step": 2}))
        resumed = follow(hub, mine, id_of(heard[0]))
        assert kinds(await take(resumed, 3)) == ["hello", "checkpoint", "step"]
        await resumed.aclose()

    asyncio.run(listen())


def test_one_poller_serves_all_pages(data: Path):
    run_id = new_run()

    async def listen() -> None:
        hub = Hub()
        pages = [follow(hub, run_id if i else None, None) for i in range(3)]
        for page in pages:
            await take(page, 1)
        poller = hub.poller
        publish(run_id, ("evaluation", {"step": 4}))
        for page in pages:
            assert kinds(await take(page, 1)) == ["evaluation"]
        assert hub.poller is poller
        for page in pages:
            await page.aclose()

    asyncio.run(listen())


def test_a_page_alone_finds_a_lost_run(data: Path):
    with writing() as session:
        run_id = runs.create(session, name="held", config=demo.CONFIG, preset=None).id
        assert runs.claim(session, run_id, "gone", lease_seconds=-1) == 1

    async def listen() -> None:
        events = follow(Hub(), run_id, None)
        heard = await take(events, 2)
        assert kinds(heard) == ["hello", "state"]
        assert '"state":"lost"' in heard[1]
        await events.aclose()

    asyncio.run(listen())


def test_a_page_that_cannot_keep_up_is_told_to_load_afresh(data: Path):
    run_id = new_run()

    async def listen() -> None:
        hub = Hub()
        events = follow(hub, run_id, None)
        await take(events, 1)
        for page in hub.pages:
            for i in range(live.MAX_WAITING + 1):
                hub.hand(page, [Change(10**9 + i, run_id, "step", {"step": i})])
        messages = await take(events, live.MAX_WAITING + 1)
        assert kinds(messages)[-1] == "resync"
        await events.aclose()

    asyncio.run(listen())


def test_a_message_is_one_line_of_data():
    text = live.message(Change(7, "r", "state", {"state": "failed", "why": "line one\nline two"}))
    assert text.count("\n") == 4
    assert text.startswith("id: 7\nevent: state\ndata: {")
