"""The whole way: one command, a launch from the page, a real trainer, its tree and samples, all in the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Visit
from tests.frontend_components.serving import serving

SHORT = {"^steps": 3, "tree_every": 1, "limit": 12, "per_step": 2}
STARTS = 180_000  # ms: a worker, then torch, then the base's evaluation, on a busy machine
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The one command, with broker and worker of its own. Nothing that it started may outlive it."""
    data = tmp_path_factory.mktemp("lab")
    with serving(data) as base:
        yield base
        started = [process for process in psutil.process_iter() if belongs(process, data)]
        assert len(started) >= 3  # server, broker, worker
    assert psutil.wait_procs(started, timeout=10)[1] == []


def belongs(process: psutil.Process, data: Path) -> bool:
    try:
        return process.environ().get("ESPALIER_DATA") == str(data)
    except psutil.Error:
        return False


@pytest.fixture
def walk(browser: Browser, lab: str) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    visit = Visit(context.new_page(), lab)
    visit.watch()
    yield visit
    context.close()
    assert visit.wrong == []


def launch(page: Page, changes: dict[str, int]) -> None:
    """Sets numbers in the default preset's YAML and presses the button."""
    expect(page.locator(".costs")).to_contain_text("forwards per prompt", timeout=STARTS)
    page.get_by_role("button", name="YAML").click()
    text = page.get_by_label("Settings as YAML")
    written = text.input_value()
    for name, value in changes.items():
        written, found = re.subn(rf"({name}): \d+", rf"\1: {value}", written, count=1, flags=re.MULTILINE)
        assert found == 1
    text.fill(written)
    expect(page.locator(".command")).to_contain_text(f"--set steps={changes['^steps']}")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url("**/run?id=*", timeout=30_000)


def test_a_run_from_the_launch_button_to_the_comparison(walk: Visit):
    page = walk.open("/")
    launch(page, SHORT)
    expect(page.locator(".run-head .state")).to_have_text("running", timeout=STARTS)
    expect(page.locator(".tree-small canvas")).to_be_visible(timeout=STARTS)
    walk.keep("walk-live")
    expect(page.locator(".run-head .state")).to_have_text("done", timeout=400_000)
    expect(page.locator(".run-progress")).to_contain_text("step 3 of 3")
    expect(page.locator(".samples img").first).to_be_visible()
    walk.keep("walk-run")

    page.locator(".run-head").get_by_role("link", name="Tree").click()
    page.wait_for_function("document.querySelector('.tree-stage canvas.tree-canvas')?.espalier.sprite")
    page.locator(".tree-stage canvas.tree-canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".node-panel")).to_contain_text("fused from 16 leaves")
    walk.keep("walk-tree")
    page.goto(page.url.split("/tree?")[0] + "/compare")
    expect(page.locator(".pair").first).to_be_visible()
    walk.keep("walk-compare")


def test_stop_saves_and_resume_goes_on(walk: Visit):
    page = walk.open("/")
    launch(page, SHORT | {"^steps": 500})
    state, count = page.locator(".run-head .state"), page.locator(".run-progress b")
    expect(count).not_to_have_text("0", timeout=STARTS)
    page.get_by_role("button", name="Stop and save").click()
    expect(state).to_have_text("stopped", timeout=120_000)
    reached = int(count.inner_text())
    page.get_by_role("button", name="Resume from checkpoint").click()
    expect(state).to_have_text("running", timeout=STARTS)
    page.wait_for_function(f"Number(document.querySelector('.run-progress b').textContent) > {reached}", timeout=STARTS)
    page.get_by_role("button", name="Stop and save").click()
    expect(state).to_have_text("stopped", timeout=120_000)
    page.get_by_text("Checkpoints", exact=True).click()
    expect(page.get_by_text(f"checkpoint-{reached}", exact=True)).to_be_visible()
