"""Sets of two samples of one model, and the reward that is fitted to votes, from the buttons to where it is chosen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import expect

from db import samples
from db.session import migrate, reading, writing
from tests.browser.conftest import Visit
from tests.frontend_components import demo
from tests.frontend_components.judging.test_vote_api import judged_set
from tests.frontend_components.serving import serving

pytestmark = pytest.mark.timeout(900)  # a fit runs in a process of its own
NUM_PAIRS = 20


@dataclass
class Lab:
    """run: a demo run with two samples of 20 prompts at its last step; judged, few: sets of 20 and 3 decided votes."""

    base: str
    run: str
    judged: str
    few: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    data = tmp_path_factory.mktemp("votes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPALIER_DATA", str(data))
        patch.delenv("DATABASE_URL", raising=False)
        migrate()
        run = demo.plant("shapes-done")
        keep_second_samples(run)
        judged, few = judged_set(data, NUM_PAIRS, choice="left"), judged_set(data, 3)
        with serving(data, "--no-worker", CELERY_BROKER_URL="redis://127.0.0.1:1/0") as base:
            yield Lab(base, run, judged, few)


def keep_second_samples(run: str) -> None:
    with writing() as session:
        kept = samples.at(session, run, "test", 24)
        again: list[dict[str, Any]] = [
            {"prompt_index": one.prompt_index, "prompt": one.prompt, "task": one.task, "seed": 7}
            | {"sha256": other.sha256, "scores": {"strict": 0.0, "quality": 0.01 * one.prompt_index}}
            for one, other in zip(kept[:20], kept[20:40], strict=True)
        ]
        samples.put(session, run, "test", 24, again)


def source_of(visit: Visit) -> tuple[dict[str, Any], int]:
    """The source of the set that the page shows, and its number of pairs."""
    found = re.search(r"set=([\w-]+)", visit.page.url)
    assert found
    shown = json.loads(visit.page.request.get(f"{visit.base}/api/v1/review-sets/{found[1]}").text())
    return shown["settings"]["source"], shown["progress"]["pairs"]


def test_two_noises_of_one_model_are_chosen_in_the_form(visit: Visit, site: Lab):
    page = visit.open(f"/reviews?run={site.run}&left=0&right=24")
    page.get_by_label("Kind of comparison").select_option("seeds")
    expect(page.locator(".model-row:visible")).to_have_count(1)
    expect(page.get_by_role("button", name="Add a model")).to_be_hidden()
    page.get_by_label("Step", exact=True).first.select_option("24")
    expect(page.get_by_label("Name", exact=True)).to_have_value("shapes-done: step 24, two noises")
    page.get_by_label("Prompts", exact=True).select_option("lowest")
    page.get_by_label("Score", exact=True).select_option("quality")
    page.get_by_label("Number of samples").fill("4")
    visit.keep("new-set-of-seeds")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("shapes-done step 24, two noises")).to_be_visible()
    source, num_pairs = source_of(visit)
    assert source == {
        "kind": "seeds", "run": site.run, "step": 24, "prompts": None, "only": {"reward": "quality", "count": 4}
    }  # fmt: skip
    assert num_pairs == 4  # 0.00 to 0.03 are the lowest, of four prompts


def test_failures_of_the_second_model_are_a_choice(visit: Visit, site: Lab):
    page = visit.open(f"/reviews?run={site.run}&left=0&right=24&only=failed")
    expect(page.get_by_label("Prompts", exact=True)).to_have_value("failed")
    page.locator(".field", has_text="Shown twice").locator("select").select_option("0")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("No reviewer yet")).to_be_visible()
    source, num_pairs = source_of(visit)
    assert source["only"] == "failed"
    with reading() as session:
        wrong = [one for one in samples.at(session, site.run, "test", 24) if one.scores["strict"] == 0]
    assert num_pairs == sum(one.seed != 7 for one in wrong)  # the base has the first samples alone


def test_a_reward_is_fitted_by_a_button_and_offered_to_runs(visit: Visit, site: Lab):
    page = visit.open(f"/leaderboard?set={site.judged}")
    button = page.get_by_role("button", name="Fit a reward to these votes")
    button.click()
    expect(button).to_be_disabled()
    table = page.get_by_role("table", name="Fitted rewards")
    expect(table).to_be_visible(timeout=600_000)
    expect(button).to_be_enabled()
    (fitted,) = page.request.get(f"{site.base}/api/v1/rewards/learned").json()
    row = table.locator("tbody tr")
    expect(row).to_contain_text(fitted["file"])
    expect(row).to_contain_text(f"{100 * fitted['accuracy']:.1f} %")
    assert fitted["votes"] == NUM_PAIRS
    visit.keep("fitted-reward")
    page.reload()
    expect(table.locator("tbody tr")).to_have_count(1)

    visit.open("/")
    rewards = page.get_by_role("region", name="The run").get_by_label("Add to Rewards")
    rewards.select_option("learned")
    file = page.locator("[id^=field-rewards-][id$=-file]")
    file.fill(fitted["file"])
    expect(page.get_by_text(fitted["label"])).to_be_visible()
    assert page.locator(f"datalist option[value='{fitted['file']}']").count() == 1


def test_too_few_votes_are_told_where_the_button_is(visit: Visit, site: Lab):
    page = visit.open(f"/leaderboard?set={site.few}")
    page.get_by_role("button", name="Fit a reward to these votes").click()
    expect(page.get_by_text("3 pairs are decided, fewer than 16; judge more pairs first")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("button", name="Fit a reward to these votes")).to_be_enabled()
    visit.wrong = [text for text in visit.wrong if "422" not in text]


def test_ratings_are_not_shown_of_one_model(visit: Visit, site: Lab):
    made = page_post(visit, site, "review-sets", {
        "name": "noises", "source": {"kind": "seeds", "run": site.run, "step": 24}, "repeats": 0
    })["id"]  # fmt: skip
    token = page_post(visit, site, f"review-sets/{made}/reviewers", {"pseudonym": "ada"})["token"]
    desk = visit.page.request.get(f"{site.base}/api/v1/review/{token}").json()
    vote = {"showing": desk["current"]["id"], "choice": "left", "client_key": "one-vote-only"}
    page_post(visit, site, f"review/{token}/votes", vote)
    page = visit.open(f"/leaderboard?set={made}")
    expect(page.get_by_text("All votes compare two samples of one model")).to_be_visible()
    expect(page.get_by_role("heading", name="How well rewards agree with people")).to_be_visible()
    expect(page.get_by_role("heading", name="Ratings")).to_have_count(0)


def page_post(visit: Visit, site: Lab, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = visit.page.request.post(f"{site.base}/api/v1/{path}", data=body)
    assert answer.ok, answer.text()
    found: dict[str, Any] = answer.json()
    return found
