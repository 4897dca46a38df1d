"""Every page in a real browser: it renders, it lives, it survives a reload, it is silent in the console."""

import re

import pytest
from playwright.sync_api import Page, expect

from db import stream
from db.session import writing
from tests.browser.conftest import Site, Visit

BOTH = pytest.mark.parametrize("visit", ["light", "dark"], indirect=True)


def theme(page: Page) -> str:
    return page.evaluate("document.documentElement.dataset.theme")


def tree_ready(page: Page) -> None:
    page.wait_for_function("document.querySelector('.tree-stage canvas.tree-canvas')?.espalier.sprite")


@BOTH
def test_runs_lists_what_there_is(visit: Visit, site: Site):
    page = visit.open("/runs")
    row = page.get_by_role("row").filter(has_text="shapes-done")
    expect(row).to_contain_text("done")
    expect(row).to_contain_text("24 / 24")
    visit.keep(f"runs-{theme(page)}")
    page.get_by_role("button", name="Failed").click()
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No run matches")).to_be_visible()


@BOTH
def test_run_shows_state_curves_tree_samples(visit: Visit, site: Site):
    page = visit.open(f"/run?id={site.done}")
    expect(page.get_by_role("heading", name="shapes-done")).to_be_visible()
    expect(page.locator(".plot .main-svg").first).to_be_visible()
    expect(page.locator(".tree-small canvas")).to_be_visible()
    expect(page.locator(".samples img")).to_have_count(8)
    expect(page.locator(".evaluation .lead-row")).to_contain_text("Strict accuracy")
    page.wait_for_timeout(300)
    visit.keep(f"run-{theme(page)}")


@BOTH
def test_a_click_on_a_node_opens_its_panel(visit: Visit, site: Site):
    page = visit.open(f"/tree?id={site.done}")
    canvas = page.locator(".tree-stage canvas.tree-canvas")
    tree_ready(page)
    place = canvas.evaluate("(node) => node.espalier.place(node.espalier.levels[9][2])")
    canvas.click(position=place)
    panel = page.locator(".node-panel")
    expect(panel).to_contain_text("Split 2 at step 9")
    expect(panel).to_contain_text("fused from 2 leaves")
    expect(panel.locator(".sibling")).to_have_count(1)
    assert "node=9.2" in page.url
    visit.keep(f"tree-{theme(page)}")
    page.reload()
    expect(page.locator(".node-panel")).to_contain_text("Split 2 at step 9")


def test_the_tree_is_walked_by_keys(visit: Visit, site: Site):
    page = visit.open(f"/tree?id={site.done}")
    tree_ready(page)
    page.locator(".tree-stage canvas.tree-canvas").focus()
    for key, heading in [
        ("ArrowRight", "Split 0 at step 0"),
        ("ArrowRight", "Split 0 at step 3"),
        ("ArrowDown", "Split 1 at step 3"),
        ("ArrowLeft", "Split 0 at step 0"),
    ]:
        page.keyboard.press(key)
        expect(page.locator(".node-panel h2")).to_have_text(heading)
    page.keyboard.press("Escape")
    expect(page.locator(".node-panel")).to_contain_text("Pick a node")


def test_folding_hides_chains(visit: Visit, site: Site):
    page = visit.open(f"/tree?id={site.done}")
    tree_ready(page)
    page.get_by_text("Nodes as a table").click()
    rows = page.locator(".table-alt tbody tr")
    expect(rows).to_have_count(31)  # 1 root, 2 + 4 + 8 later splits, 16 leaves
    page.get_by_role("button", name="Unfold every step").click()
    # 1 root; 3 levels each of 2, 4 and 8 nodes; 11 levels of 16
    expect(rows).to_have_count(1 + 3 * (2 + 4 + 8) + 11 * 16)


def test_the_slider_moves_through_training(visit: Visit, site: Site):
    page = visit.open(f"/tree?id={site.done}&step=4&prompt=1")
    expect(page.locator(".where")).to_have_text("4")
    page.get_by_role("slider", name="Training step").press("ArrowRight")
    expect(page.locator(".where")).to_have_text("6")  # prompt 1 has a tree at every second step
    expect(page).to_have_url(re.compile("step=6"))


@BOTH
def test_compare_sorts_pairs_by_outcome(visit: Visit, site: Site):
    page = visit.open(f"/compare?run={site.done}")
    expect(page.locator(".pair")).to_have_count(48)
    visit.keep(f"compare-{theme(page)}")
    fixed = page.get_by_role("group", name="Filter by outcome").get_by_role("button", name="Fixed by training")
    number = int(fixed.inner_text().rsplit(" ", 1)[1])
    fixed.click()
    expect(page.locator(".pair")).to_have_count(number)
    page.locator(".pair").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("fixed by training")
    page.wait_for_timeout(300)
    visit.keep(f"wipe-{theme(page)}")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


@BOTH
def test_launch_prices_a_draft_and_names_mistakes(visit: Visit, site: Site):
    page = visit.open("/")
    costs = page.locator(".costs")
    expect(costs).to_contain_text("47", timeout=60_000)
    expect(costs).to_contain_text("of device memory")
    expect(costs).to_contain_text("unknown until the first step")  # the demo runs are of settings that none has
    visit.keep(f"launch-{theme(page)}")
    steps = page.get_by_label("Training steps")
    steps.fill("0")
    problem = page.locator(".field", has=steps).locator(".problem")
    expect(problem).to_contain_text("greater than or equal to 1")
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_disabled()
    steps.fill("7")
    expect(page.locator(".command")).to_contain_text("--set steps=7")
    expect(problem).to_be_hidden()


def test_yaml_and_form_follow_each_other(visit: Visit, site: Site):
    page = visit.open("/")
    expect(page.locator(".costs")).to_contain_text("47", timeout=60_000)
    page.get_by_role("button", name="YAML").click()
    text = page.get_by_label("Settings as YAML")
    visit.keep("launch-yaml")
    text.fill(re.sub(r"^steps: \d+", "steps: 33", text.input_value(), count=1, flags=re.MULTILINE))
    expect(page.locator(".command")).to_contain_text("--set steps=33")
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.get_by_label("Training steps")).to_have_value("33")


def test_tasks_are_weighted_by_naming_them_and_unknown_ones_are_refused(visit: Visit, site: Site):
    page = visit.open("/")
    expect(page.locator(".costs")).to_contain_text("47", timeout=60_000)
    tasks = page.get_by_label("Tasks", exact=True)
    problem = page.locator(".field", has=tasks).last.locator(":scope > .problem")
    tasks.fill("counting, counting position")
    expect(page.locator(".command")).to_contain_text("prompts.tasks=[counting, counting, position]")
    tasks.scroll_into_view_if_needed()
    visit.keep("launch-tasks")
    tasks.fill("counting, flying")
    expect(problem).to_contain_text("flying: not a task of this world")
    tasks.fill("")
    expect(problem).to_be_hidden()


def test_rewards_are_added_to_a_draft_and_repeats_are_refused(visit: Visit, site: Site):
    page = visit.open("/")
    expect(page.locator(".costs")).to_contain_text("47", timeout=60_000)
    rewards = page.locator(".field[data-kind=list]").first  # the second is that of held-out rewards
    problem = rewards.locator(":scope > .problem")
    add = rewards.get_by_label("Add to Rewards")
    add.select_option("nearest_truth")
    expect(page.locator(".command")).to_contain_text("nearest_truth")
    expect(rewards.locator(".item")).to_have_count(2)
    add.select_option("nearest_truth")
    expect(problem).to_contain_text("nearest_truth is there 2 times")
    rewards.get_by_role("button", name="Remove nearest_truth").last.click()
    expect(problem).to_be_hidden()


def test_settings_of_a_reward_stand_beside_and_below_each_other(visit: Visit, site: Site):
    page = visit.open("/")
    expect(page.locator(".costs")).to_contain_text("47", timeout=60_000)
    rewards = page.locator(".field[data-kind=list]").first
    rewards.get_by_label("Add to Rewards").select_option("videoalign")
    fields = rewards.locator(".item").last.locator(".field")
    expect(fields).to_have_count(10)
    boxes = [box for one in fields.all() if (box := one.bounding_box())]
    assert min(box["width"] for box in boxes) > 150
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            beside = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert beside or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"], (a, b)


def test_stored_groups_cost_no_rollout_and_can_be_left_out(visit: Visit, site: Site):
    page = visit.open("/")
    page.get_by_label("Preset").select_option("shapes-dgpo-offline")
    costs = page.locator(".costs")
    expect(costs).to_contain_text("nothing is sampled", timeout=60_000)
    page.locator("summary", has_text="Stored groups").click()
    folder = page.locator("#field-groups")
    expect(folder).to_have_value("data/shapes-groups")
    folder.fill("")
    expect(costs).to_contain_text("nothing is shared in a flat group")
    expect(page.locator(".command")).to_contain_text("--set groups=null")


DRAWN = """([title, points]) => {
    const plot = document.querySelector(`.card[aria-label="${title}"] .js-plotly-plot`);
    return plot?.calcdata?.at(-1)?.length === points;
}"""


def test_a_running_page_grows_by_itself(visit: Visit, site: Site):
    page = visit.open(f"/run?id={site.running}")
    expect(page.locator(".run-progress")).to_contain_text("step 9 of 24")
    page.wait_for_selector(".run-head[data-live=true]")
    with writing() as session:
        metrics = {"train/reward_mean": 0.5, "time/rollout": 1.0, "time/reward": 0.1, "time/loss": 2.0}
        metrics |= {"memory/peak": 0.6, "memory/estimate": 0.5}
        stream.publish(session, site.running, "step", {"step": 10, "metrics": metrics})
    expect(page.locator(".run-progress")).to_contain_text("step 10 of 24")
    expect(page.locator(".run-head")).to_contain_text(re.compile(r"last update (just now|\d+ s ago)"))
    expect(page.locator(".card[aria-label='Peak memory']")).to_be_visible()
    for title in ("Reward", "Time per step"):
        page.wait_for_function(DRAWN, arg=[title, 10])


def test_unknown_run_says_so(visit: Visit, site: Site):
    page = visit.open("/run?id=nothing")
    expect(page.get_by_text("No such run")).to_be_visible()
    visit.wrong = [text for text in visit.wrong if "404" not in text]


def test_the_choice_of_colours_stays(visit: Visit, site: Site):
    page = visit.open("/runs")
    page.get_by_role("button", name="Switch to dark colours").click()
    assert theme(page) == "dark"
    page.goto(site.base + "/compare")
    page.wait_for_selector(".masthead nav")
    assert theme(page) == "dark"
