"""A run of videos: they play on the run's page, and side by side on one clock, frame by frame and enlarged together."""

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

from backend.config import dump, load, preset_path
from backend.events import EventLog, RunEnded, RunStarted, Sample, SamplesSaved
from backend.media import save_sample
from tests.browser.conftest import Site, Visit
from workers.adopt import adopt

PLAYING = """(place) => {
    const videos = [...document.querySelectorAll(place + ' video')];
    return videos.length && videos.every((video) => !video.paused && video.readyState >= 2 && video.currentTime > 0);
}"""
APART = """(place) => {
    const [left, right] = [...document.querySelectorAll(place + ' video')].map((video) => video.currentTime);
    return Math.abs(left - right);
}"""
# the row that the bar of `clip` begins at in each video: its frame number, as it is drawn
DRAWN = """(place) => [...document.querySelectorAll(place + ' video')].map((video) => {
    if (video.seeking || video.readyState < 2) return -1;
    const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 64 });
    const pen = canvas.getContext('2d');
    pen.drawImage(video, 0, 0);
    const data = pen.getImageData(0, 0, 64, 64).data;
    const lit = (y) => Array.from({ length: 64 }, (_, x) => data[4 * (64 * y + x)]).some((red) => red > 128);
    return Array.from({ length: 64 }, (_, y) => y).findIndex(lit);
})"""
PARTS = """() => [...document.querySelectorAll('.pairs .frame')].map((cell) => {
    const [outer, inner] = [cell, cell.firstElementChild].map((node) => node.getBoundingClientRect());
    return [(inner.left - outer.left) / outer.width, (inner.top - outer.top) / outer.height, inner.width / outer.width]
        .map((share) => Number(share.toFixed(3)));
})"""


def clip(place: int) -> torch.Tensor:
    """33 frames: a bar that moves down, at x = place."""
    frames = torch.zeros(33, 3, 64, 64)
    for number in range(33):
        frames[number, :, number : number + 16, place : place + 16] = 1
    return frames


def video_run(folder: Path, num: int = 1) -> str:
    """The id of a finished run whose base and tuned samples are videos of `num` prompts."""
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
        samples = [
            Sample(prompt_index=i, prompt=f"a bar falls {i}", seed=1, task=None, media=media, scores={"motion": 0.5})
            for i in range(num)
        ]
        for collection in ("fixed", "test"):
            log(SamplesSaved(step=step, collection=collection, samples=samples))
    log(RunEnded(step=2, outcome="done"))
    log.close()
    return adopt(folder)


def shows(page: Page, place: str, frame: int) -> None:
    """Waits until each video there has drawn this frame, counted from 0."""
    page.wait_for_function(f"(place) => ({DRAWN})(place).every((drawn) => drawn === {frame})", arg=place)


@pytest.fixture(scope="module")
def run(site: Site, tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(site.data))
        return video_run(tmp_path_factory.mktemp("videos") / "run", num=2)


def test_videos_of_the_run_page_start_by_themselves(visit: Visit, site: Site, run: str):
    visit.open(f"/run?id={run}").wait_for_function(PLAYING, arg=".samples")


def test_a_viewer_who_wants_no_motion_starts_videos_by_hand(browser: Browser, site: Site, run: str):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{site.base}/run?id={run}")
    page.wait_for_selector(".samples video")
    video = page.locator(".samples video").first
    expect(video).to_have_attribute("controls", "")
    assert video.evaluate("(video) => video.paused && !video.autoplay")
    page.goto(f"{site.base}/compare?run={run}")
    page.locator(".pair").first.click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert page.locator(".wipe-stack video").evaluate_all("(all) => all.every((video) => video.paused)")
    context.close()


def test_compare_shows_stills_until_it_is_asked_to_play(visit: Visit, site: Site, run: str):
    page = visit.open(f"/compare?run={run}")
    videos = page.locator(".pairs video")
    expect(videos).to_have_count(4)
    assert videos.evaluate_all("(all) => all.every((one) => one.paused && one.poster.includes('/media/'))")
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function(PLAYING, arg=".pairs")
    assert page.evaluate(APART, ".pair") < 0.3
    # one that is set back by a second is with the others again within the next moments
    page.evaluate("() => (document.querySelectorAll('.pairs video')[1].currentTime = 0)")
    page.wait_for_function(
        "() => { const times = [...document.querySelectorAll('.pairs video')].map((one) => one.currentTime);"
        " return times[0] > 0.2 && Math.max(...times) - Math.min(...times) < 0.15 }"
    )
    page.get_by_role("button", name="Pause").click()
    frame = int(page.get_by_role("slider", name="Frame").first.input_value())
    shows(page, ".pairs", frame)


def test_keys_and_buttons_step_all_videos_by_one_frame(visit: Visit, site: Site, run: str):
    page = visit.open(f"/compare?run={run}")
    expect(page.locator(".transport-frame").first).to_have_text("frame 1 of 33")
    page.keyboard.press(".")
    page.keyboard.press(".")
    page.keyboard.press(".")
    shows(page, ".pairs", 3)
    page.keyboard.press(",")
    shows(page, ".pairs", 2)
    page.get_by_role("button", name="One frame forward").first.click()
    shows(page, ".pairs", 3)
    slider = page.get_by_role("slider", name="Frame").first
    slider.fill("32")
    shows(page, ".pairs", 32)
    page.keyboard.press(".")  # the last frame stays
    expect(page.locator(".transport-frame").first).to_have_text("frame 33 of 33")
    visit.keep("compare-video-last")


def test_speed_holds_for_all_videos(visit: Visit, site: Site, run: str):
    page = visit.open(f"/compare?run={run}")
    page.get_by_role("combobox", name="Speed").first.select_option("0.25")
    page.keyboard.press("k")
    page.wait_for_function(PLAYING, arg=".pairs")
    rates = page.locator(".pairs video").evaluate_all("(all) => all.map((video) => video.playbackRate)")
    assert all(0.19 < rate < 0.31 for rate in rates)  # followers vary by up to a fifth
    page.keyboard.press("k")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_the_large_view_plays_on_one_clock_and_steps(visit: Visit, site: Site, run: str):
    page = visit.open(f"/compare?run={run}")
    page.locator(".pair").first.click()
    page.wait_for_function(PLAYING, arg=".wipe-stack")
    page.evaluate("() => (document.querySelectorAll('.wipe-stack video')[1].currentTime = 0)")
    page.wait_for_function(
        "() => { const [a, b] = [...document.querySelectorAll('.wipe-stack video')];"
        " return a.currentTime > 0.2 && Math.abs(a.currentTime - b.currentTime) < 0.15 }"
    )
    visit.keep("compare-video")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("slider", name="Frame").fill("5")
    page.keyboard.press(".")
    shows(page, ".wipe-stack", 6)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


@pytest.mark.parametrize("kind", ["videos", "pictures"])
def test_zoom_and_drag_move_every_cell_alike(visit: Visit, site: Site, run: str, kind: str):
    page = visit.open(f"/compare?run={run if kind == 'videos' else site.done}")
    cell = page.locator(".pairs .frame").first
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box is not None
    # a quarter of the way in, and twice as large: 0.25 - 2 * 0.25 = -0.25 of a side
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 4)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -240)
    page.keyboard.up("Control")
    page.wait_for_function("() => document.querySelector('.pairs').classList.contains('zoomed')")
    parts = page.evaluate(PARTS)
    assert len(parts) >= 4
    assert parts[0] == pytest.approx([-0.25, -0.25, 2], abs=0.02)
    assert all(part == pytest.approx(parts[0], abs=0.01) for part in parts)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4 - box["width"] / 2, box["y"] + box["height"] / 4, steps=4)
    page.mouse.up()
    assert all(part == pytest.approx([-0.75, -0.25, 2], abs=0.02) for part in page.evaluate(PARTS))
    expect(page.get_by_role("dialog")).to_be_hidden()  # a drag is no click
    visit.keep(f"compare-zoom-{kind}")
    page.keyboard.press("0")
    assert all(part == [0, 0, 1] for part in page.evaluate(PARTS))


def test_the_bar_fits_a_narrow_window(visit: Visit, site: Site, run: str):
    visit.page.set_viewport_size({"width": 400, "height": 800})
    page = visit.open(f"/compare?run={run}")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    bar = page.locator(".view-bar").first
    assert bar.evaluate("(bar) => bar.scrollWidth <= bar.clientWidth + 1")
    rights = bar.locator("button, select, input").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().right)"
    )
    assert max(rights) <= 400
    visit.keep("compare-video-narrow")
