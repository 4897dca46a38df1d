"""A real server over demo data, and a real Chromium. Set ESPALIER_SCREENSHOTS to a folder to keep the pictures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from db.session import migrate
from tests.frontend_components import demo
from tests.frontend_components.serving import serving

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--expose-gc",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no chromium on PATH"))


@dataclass(frozen=True)
class Site:
    """base: address; data: folder; done and running: ids of two demo runs."""

    base: str
    data: Path
    done: str
    running: str


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    data = tmp_path_factory.mktemp("espalier")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(data))
        patch.delenv("DATABASE_URL", raising=False)
        migrate()
        done = demo.plant("shapes-done")
        running = demo.plant("shapes-running", 9, 24, end=None)
        with serving(data, "--no-worker", CELERY_BROKER_URL="redis://127.0.0.1:1/0") as base:
            yield Site(base, data, done, running)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@dataclass
class Visit:
    """An open page that remembers what went wrong in it."""

    page: Page
    base: str
    wrong: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", lambda m: self.wrong.append(f"console: {m.text}") if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", lambda r: self.wrong.append(f"external: {r.url}") if self.is_external(r.url) else None)
        self.page.on("response", lambda r: self.wrong.append(f"{r.status}: {r.url}") if r.status >= 400 else None)

    def is_external(self, url: str) -> bool:
        return not url.startswith((self.base, "data:", "blob:"))

    def open(self, path: str) -> Page:
        self.page.goto(self.base + path)
        self.page.wait_for_selector(".masthead nav")
        return self.page

    def keep(self, name: str) -> None:
        folder = os.environ.get("ESPALIER_SCREENSHOTS")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.fixture
def visit(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A fresh browser profile at 1280x800. A test fails when its page logged an error or asked another host."""
    scheme = getattr(request, "param", "light")
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    visit = Visit(context.new_page(), site.base)
    visit.watch()
    yield visit
    context.close()
    assert visit.wrong == []
