"""Judging in real browsers: nothing tells the sides apart, and no vote is lost or counted twice, whatever happens."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from db.session import migrate
from tests.browser.conftest import Visit
from tests.frontend_components import demo
from tests.frontend_components.serving import free_port, serving

KEYS = {"left": "ArrowLeft", "right": "ArrowRight", "tie": "ArrowDown", "both_bad": "b", "skip": "s"}
DESK = {"set", "pseudonym", "aspects", "done", "total", "can_undo", "closed", "current", "next"}
SHOWING = {"id", "prompt", "kind", "left", "right"}
pytestmark = pytest.mark.timeout(600)  # a server is started three times
BOTH = pytest.mark.parametrize("visit", ["light", "dark"], indirect=True)


@dataclass
class Lab:
    """A server that can be ended and started again at one address. run: id of a demo run in it."""

    data: Path
    run: str
    port: int = field(default_factory=free_port)
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        process = serving(self.data, "--no-worker", port=self.port, CELERY_BROKER_URL="redis://127.0.0.1:1/0")
        self.stack.enter_context(process)

    def stop(self) -> None:
        self.stack.close()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.base}/api/v1/{path}", timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(
            f"{self.base}/api/v1/{path}", data, {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def make(self, name: str, reviewers: list[str], **settings: Any) -> tuple[str, list[str]]:
        """A review set of the demo run's base and last step; its id and the links of its reviewers."""
        source = {"kind": "comparison", "run": self.run, "left": 0, "right": 24}
        made = self.post("review-sets", {"name": name, "source": source, "quota": 8} | settings)["id"]
        invited = [self.post(f"review-sets/{made}/reviewers", {"pseudonym": one}) for one in reviewers]
        return made, [one["url"] for one in invited]

    def standing_votes(self, review_set: str) -> list[tuple[str, int, str, dict[str, str]]]:
        """From the exported file: reviewer, place, choice and aspects of each vote that stands."""
        archive = self.get(f"review-sets/{review_set}/export?format=native")
        return [
            (shown["reviewer"], shown["ordinal"], vote["choice"], vote["aspects"])
            for shown in archive["showings"]
            for vote in shown["votes"]
            if vote["undone_at"] is None
        ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Stands in for the shared server, because it is ended and started again."""
    data = tmp_path_factory.mktemp("judging")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(data))
        patch.delenv("DATABASE_URL", raising=False)
        migrate()
        lab = Lab(data, demo.plant("shapes-done"))
        lab.start()
        yield lab
        lab.stop()


@dataclass
class Seat:
    """One reviewer in a browser of their own, who notes the choices that stand."""

    page: Page
    pseudonym: str
    clicked: list[str] = field(default_factory=list)

    def sees(self, done: int) -> None:
        expect(self.page.locator(".desk-progress")).to_contain_text(f"{done} of 8 judged", timeout=30_000)
        self.page.wait_for_timeout(250)  # a key right after a pair has appeared counts for nothing

    def vote(self, choice: str) -> None:
        self.page.keyboard.press(KEYS[choice])
        self.clicked.append(choice)
        self.sees(len(self.clicked))

    def undo(self) -> None:
        self.page.keyboard.press("u")
        self.clicked.pop()
        self.sees(len(self.clicked))


@pytest.fixture
def seats(browser: Browser, site: Lab) -> Iterator[list[Seat]]:
    """Two reviewers who judge one set, each in a browser profile of their own."""
    _, links = site.make("two reviewers", ["ada", "ben"])
    contexts = [browser.new_context(viewport={"width": 1280, "height": 800}) for _ in links]
    found = []
    for context, link, name in zip(contexts, links, ["ada", "ben"], strict=True):
        page = context.new_page()
        page.goto(link)
        found.append(Seat(page, name))
        found[-1].sees(0)
    yield found
    for context in contexts:
        context.close()


def sets_named(site: Lab, name: str) -> str:
    return next(one["id"] for one in site.get("review-sets") if one["name"] == name)


def test_two_reviewers_lose_and_double_nothing(seats: list[Seat], site: Lab):
    ada, ben = seats
    choices = cycle(["left", "right", "tie", "both_bad", "skip"])
    for _ in range(2):
        ada.vote(next(choices))
        ben.vote(next(choices))
    ada.undo()
    ada.undo()
    ada.vote("right")
    ben.undo()
    ben.page.reload()
    ben.sees(1)
    ben.vote("tie")
    ada.vote("left")

    site.stop()
    for seat, choice in ((ada, "both_bad"), (ben, "right")):
        seat.page.keyboard.press(KEYS[choice])
        expect(seat.page.locator(".desk-note")).to_contain_text("No connection. Your answer is kept on this device")
        seat.clicked.append(choice)
    ben.page.keyboard.press(KEYS["left"])  # a second answer while the first one waits is none
    site.start()
    for seat in seats:
        seat.sees(3)
        expect(seat.page.locator(".desk-note")).to_be_empty()

    while len(ada.clicked) < 8:
        for seat in seats:
            seat.vote(next(choices))
    for seat in seats:
        expect(seat.page.get_by_role("heading", name="Thank you")).to_be_visible()
    expected = [(seat.pseudonym, place, choice, {}) for seat in seats for place, choice in enumerate(seat.clicked)]
    assert site.standing_votes(sets_named(site, "two reviewers")) == expected


def test_a_waiting_answer_outlives_its_page(browser: Browser, site: Lab):
    review_set, (link,) = site.make("closed in between", ["eve"])
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    Seat(page, "eve").sees(0)
    context.set_offline(True)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".desk-note")).to_contain_text("No connection")
    page.close()
    context.set_offline(False)
    page = context.new_page()
    page.goto(link)
    Seat(page, "eve").sees(1)
    expect(page.locator(".desk-note")).to_contain_text("has arrived")
    assert site.standing_votes(review_set) == [("eve", 0, "right", {})]
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('espalier-vote'))") == []
    context.close()


def test_two_tabs_and_a_double_click_give_one_vote(browser: Browser, site: Lab):
    review_set, (link,) = site.make("two tabs", ["kim"])
    context = browser.new_context()
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(link)
        Seat(page, "kim").sees(0)
    first.get_by_role("button", name="Left is better").dblclick()
    Seat(first, "kim").sees(1)
    second.keyboard.press("ArrowRight")
    expect(second.locator(".desk-note")).to_contain_text("The earlier answer stands")
    Seat(second, "kim").sees(1)
    first.wait_for_timeout(300)
    assert site.standing_votes(review_set) == [("kim", 0, "left", {})]
    context.close()


def test_aspects_are_answered_in_turn(visit: Visit, site: Lab):
    review_set, (link,) = site.make("aspects", ["lou"], aspects=["alignment", "quality"])
    page = visit.page
    page.goto(link)
    seat = Seat(page, "lou")
    seat.sees(0)
    for key in ("ArrowLeft", "ArrowRight", "u", "ArrowDown"):  # prompt: left; quality: right, taken back, tie
        page.keyboard.press(key)
    visit.keep("desk-aspects")
    page.keyboard.press("b")
    seat.sees(1)
    assert site.standing_votes(review_set) == [("lou", 0, "both_bad", {"alignment": "left", "quality": "tie"})]


@BOTH
def test_nothing_on_the_desk_tells_the_sides_apart(visit: Visit, site: Lab):
    _, (link,) = site.make("secret name of the set", ["max"])
    page, urls, media, desks = visit.page, [], [], []

    def note(response: Response) -> None:
        urls.append(response.url)
        if "/review-media/" in response.url:
            media.append(response)
        if "/api/v1/" in response.url:
            desks.append(response)

    page.on("response", note)
    page.goto(link)
    seat = Seat(page, "max")
    seat.sees(0)
    page.wait_for_load_state("networkidle")
    seat.vote("left")
    visit.keep(f"desk-{page.evaluate('document.documentElement.dataset.theme')}")

    asked = [url for url in urls if "/review" in url]  # the rest is the page itself, the same for every set
    told = page.locator(".desk").evaluate("(node) => node.outerHTML") + " ".join(asked)
    for secret in (site.run, "shapes-done", "secret name", "step", "base", "model_"):
        assert secret not in told.replace(link, "")
    assert not re.search(r"\b[0-9a-f]{64}\b", told)  # no hash of a picture's content
    for answer in desks:
        shown = answer.json()
        assert shown.keys() == DESK
        assert all(one is None or one.keys() == SHOWING for one in (shown["current"], shown["next"]))

    by_showing: dict[str, list[Response]] = {}
    for response in media:
        by_showing.setdefault(response.url.rsplit("/", 1)[0], []).append(response)
    assert len(by_showing) >= 2
    for sides in by_showing.values():
        left, right = ({k: v for k, v in one.all_headers().items() if k != "date"} for one in sides)
        assert left == right
        assert not {"etag", "last-modified", "content-disposition"} & left.keys()
        assert [len(one.body()) for one in sides] == [len(sides[0].body())] * 2
    boxes = [page.locator(f".pane[data-side={side}]").bounding_box() for side in ("left", "right")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert (boxes[0]["width"], boxes[0]["height"]) == (boxes[1]["width"], boxes[1]["height"])
    assert boxes[0]["height"] >= 560  # of 800
    assert page.locator(".masthead").count() == 0
    assert page.locator(".desk a").count() == 0


def test_both_sides_are_zoomed_together(visit: Visit, site: Lab):
    _, (link,) = site.make("zoom", ["noa"])
    page = visit.page
    page.goto(link)
    Seat(page, "noa").sees(0)
    page.keyboard.press("z")
    page.keyboard.press("Shift+ArrowRight")
    styles = page.locator(".pane img").evaluate_all(
        "(all) => all.map((one) => [one.style.transform, one.style.transformOrigin])"
    )
    assert styles == [["scale(3)", "58% 50%"]] * 2  # the middle, and one step of 8 % to the right
    page.keyboard.press("z")
    assert page.locator(".pane img").first.evaluate("(one) => one.style.transform") == ""
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_be_visible()
    page.keyboard.press("ArrowLeft")  # keys belong to the sheet while it is open
    page.keyboard.press("Escape")
    Seat(page, "noa").sees(0)


def test_videos_run_on_one_clock(visit: Visit, site: Lab):
    page = visit.page
    page.goto(f"{site.base}/review")
    page.wait_for_selector(".desk-message")
    page.evaluate(
        """async () => {
          const canvas = document.createElement("canvas");
          const pen = canvas.getContext("2d");
          const draw = setInterval(() => pen.fillRect(300 * Math.random(), 10, 5, 5), 30);
          const recorder = new MediaRecorder(canvas.captureStream(25));
          const chunks = [];
          recorder.ondataavailable = (event) => chunks.push(event.data);
          recorder.start();
          await new Promise((over) => setTimeout(over, 3000));
          await new Promise((over) => ((recorder.onstop = over), recorder.stop()));
          clearInterval(draw);
          const url = URL.createObjectURL(new Blob(chunks, { type: "video/webm" }));
          const { Pair } = await import("/ui/pair.js");
          window.pair = new Pair({ id: "x", prompt: "p", kind: "video", left: url, right: url });
          document.querySelector(".island").append(window.pair.element);
          await window.pair.ready;
          window.pair.sides[1].node.currentTime = 1.5;
          window.pair.play(true);
        }"""
    )
    page.wait_for_function("pair.sides[0].node.currentTime > 0.8")
    times = page.evaluate("pair.sides.map(({node}) => node.currentTime)")
    assert abs(times[0] - times[1]) < 0.3  # they began 1.5 s apart
    page.evaluate("pair.play(false)")
    assert page.evaluate("pair.sides.map(({node}) => node.paused)") == [True, True]


def test_a_wrong_link_says_so(visit: Visit, site: Lab):
    page = visit.page
    page.goto(f"{site.base}/review?t=AAAAAAAAAAAAAAAAAAAAAA")
    expect(page.get_by_role("heading", name="This link is not known.")).to_be_visible()
    visit.wrong = [text for text in visit.wrong if "404" not in text]


@BOTH
def test_from_the_comparison_to_the_links(visit: Visit, site: Lab):
    page = visit.open(f"/compare?run={site.run}")
    expect(page.locator(".pair")).to_have_count(48)
    page.get_by_role("button", name="Judge these blind").click()
    name = page.get_by_label("Name")
    expect(name).to_have_value("shapes-done: base and step 24")
    page.get_by_role("button", name="Quality").click()
    visit.keep(f"new-set-{page.evaluate('document.documentElement.dataset.theme')}")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("No reviewer yet")).to_be_visible()
    review_set = re.search(r"set=([\w-]+)", page.url)
    assert review_set
    for one in ("reviewer 1", "reviewer 2"):
        page.get_by_label("Pseudonym").fill(one)
        page.get_by_role("button", name="Add a reviewer").click()
        expect(page.get_by_label(f"Link of {one}")).to_have_value(re.compile(rf"^{site.base}/review\?t=[\w-]{{20,}}$"))
    visit.keep(f"reviews-{page.evaluate('document.documentElement.dataset.theme')}")
    made = site.get(f"review-sets/{review_set[1]}")
    assert made["settings"]["aspects"] == ["overall", "quality"]
    assert [one["pseudonym"] for one in made["reviewers"]] == ["reviewer 1", "reviewer 2"]
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.get_by_role("button", name="Open again")).to_be_visible()
    page.goto(made["reviewers"][0]["url"])
    expect(page.get_by_role("heading", name="This review is closed")).to_be_visible()


@BOTH
def test_the_leaderboard_counts_what_was_voted(visit: Visit, site: Lab):
    """Two reviewers choose the left side of 24 pairs each."""
    review_set, links = site.make("counted", ["pia", "quin"], quota=24, repeats=0)
    for link in links:
        token = link.rsplit("=", 1)[1]
        desk = site.get(f"review/{token}")
        for place in range(24):
            vote = {"showing": desk["current"]["id"], "choice": "left", "client_key": f"{token}-{place}"}
            desk = site.post(f"review/{token}/votes", vote)
    page = visit.open(f"/leaderboard?set={review_set}")
    expect(page.locator(".plot .main-svg").first).to_be_visible()
    standing = site.get(f"review-sets/{review_set}/leaderboard")
    rows = page.locator("section[aria-label=Ratings] tbody tr")
    expect(rows).to_have_count(2)
    for row, model in zip(rows.all(), standing["models"], strict=True):
        expect(row).to_contain_text(model["label"])
        outcomes = model["outcomes"]
        expect(row).to_contain_text(
            f"{outcomes['wins']} · {outcomes['ties'] + outcomes['both_bad']} · {outcomes['losses']}"
        )
    left = page.locator(".tile", has_text="Left side won")
    expect(left).to_contain_text("100 %")
    expect(left).to_contain_text("Of 48 decided votes")
    visit.page.set_viewport_size({"width": 1280, "height": 2200})
    opened = page.locator("details summary").first
    opened.click()
    expect(page.locator(".disagreement img").first).to_be_visible(timeout=30_000)
    page.wait_for_timeout(400)
    visit.keep(f"leaderboard-{page.evaluate('document.documentElement.dataset.theme')}")
    with page.expect_download() as download:
        page.get_by_role("link", name="All that is known").click()
    assert json.loads(download.value.path().read_text())["name"] == "counted"
