"""A run of videos: they play on the run's page and, side by side, on one clock."""

from pathlib import Path

import torch

from backend.config import dump, load, preset_path
from backend.events import EventLog, RunEnded, RunStarted, Sample, SamplesSaved
from backend.media import save_sample
from tests.browser.conftest import Site, Visit
from workers.adopt import adopt

PLAYING = """() => {
    const videos = [...document.querySelectorAll('video')];
    return videos.length && videos.every((video) => !video.paused && video.readyState >= 2 && video.currentTime > 0);
}"""
APART = """(place) => {
    const [left, right] = [...document.querySelectorAll(place + ' video')].map((video) => video.currentTime);
    return Math.abs(left - right);
}"""


def clip(place: int) -> torch.Tensor:
    """33 frames: a bar that moves down, at x = place."""
    frames = torch.zeros(33, 3, 64, 64)
    for number in range(33):
        frames[number, :, number : number + 16, place : place + 16] = 1
    return frames


def video_run(folder: Path) -> str:
    """The id of a finished run whose base and tuned samples are videos."""
    folder.mkdir()
    (folder / "config.yaml").write_text(dump(load(preset_path("shapes-dgpo"))))
    log = EventLog(folder / "events.jsonl")
    log(
        RunStarted(
            start_step=0, total_steps=2, facts={}, trained_parameters=1, total_parameters=1, forwards_per_prompt=6
        )
    )
    for step, place in ((0, 8), (2, 32)):
        media = save_sample(folder, clip(place))
        sample = Sample(prompt_index=0, prompt="a bar falls", seed=1, task=None, media=media, scores={"motion": 0.5})
        for collection in ("fixed", "test"):
            log(SamplesSaved(step=step, collection=collection, samples=[sample]))
    log(RunEnded(step=2, outcome="done"))
    log.close()
    return adopt(folder)


def test_videos_play_and_a_pair_runs_on_one_clock(visit: Visit, site: Site, tmp_path: Path):
    run = video_run(tmp_path / "run")
    page = visit.open(f"/run?id={run}")
    page.wait_for_function(PLAYING)
    page = visit.open(f"/compare?run={run}")
    page.wait_for_function(PLAYING)
    assert page.evaluate(APART, ".pair") < 0.3
    page.locator(".pair").first.click()
    page.wait_for_selector(".wipe-stack video")
    page.wait_for_function(PLAYING)
    # set one back by half a second: within the next moments of playing it has caught up
    page.evaluate("() => (document.querySelectorAll('.wipe-stack video')[1].currentTime = 0)")
    page.wait_for_function(
        "() => { const [a, b] = [...document.querySelectorAll('.wipe-stack video')];"
        " return a.currentTime > 0.2 && Math.abs(a.currentTime - b.currentTime) < 0.15 }"
    )
    visit.keep("compare-video")
