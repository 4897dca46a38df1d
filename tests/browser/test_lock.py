"""A lab with a password: people enter it by a form, and reviewers do not meet it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import expect

from db.session import migrate
from tests.browser.conftest import Visit
from tests.frontend_components import demo
from tests.frontend_components.serving import serving

pytestmark = pytest.mark.timeout(600)
PASSWORD = "correct horse"


@dataclass
class Lab:
    """link: of a reviewer."""

    base: str
    link: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    data = tmp_path_factory.mktemp("locked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(data))
        patch.delenv("DATABASE_URL", raising=False)
        migrate()
        run = demo.plant("shapes-done")
        broker = {"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}
        with serving(data, "--no-worker", ESPALIER_PASSWORD=PASSWORD, **broker) as base:
            source = {"kind": "comparison", "run": run, "left": 0, "right": 24}
            made = post(base, "review-sets", {"name": "blind", "source": source})["id"]
            yield Lab(base, post(base, f"review-sets/{made}/reviewers", {"pseudonym": "ada"})["url"])


def post(base: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {PASSWORD}"}
    request = urllib.request.Request(f"{base}/api/v1/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_the_password_opens_the_page_that_was_asked_for(visit: Visit, site: Lab):
    page = visit.page
    page.goto(f"{site.base}/runs?search=shapes")
    page.get_by_label("Password of this lab").fill("a wrong one")
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("alert")).to_have_text("That is not the password.")
    page.get_by_label("Password of this lab").fill(PASSWORD)
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_text("shapes-done").first).to_be_visible(timeout=60_000)
    assert page.url == f"{site.base}/runs?search=shapes"
    assert page.evaluate("document.cookie") == ""  # it is there, and no script can read it
    visit.wrong = [text for text in visit.wrong if "401" not in text]


def test_a_reviewer_judges_without_the_password(visit: Visit, site: Lab):
    page = visit.page
    page.goto(site.link)
    expect(page.locator(".desk-progress")).to_contain_text("0 of", timeout=60_000)
    expect(page.locator(".pane img").first).to_be_visible()
    page.wait_for_timeout(300)  # a key right after a pair has appeared counts for nothing
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".desk-progress")).to_contain_text("1 of")
    assert visit.wrong == []
    assert page.request.get(f"{site.base}/api/v1/review-sets").status == 401
