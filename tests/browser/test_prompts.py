"""Prompts of one's own: their report before a launch, and pages of runs that have rewards and no strict accuracy."""

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Site, Visit
from tests.browser.test_scripts import run


def test_a_file_is_reported_before_the_launch(visit: Visit, site: Site, tmp_path: Path):
    good, bad = tmp_path / "good.csv", tmp_path / "bad.jsonl"
    good.write_text("prompt,task\na red circle,x\na red circle,x\nsketch of a blue ring,y\n")
    bad.write_text('{"prompt": "a"}\n{"promt": "b"}\n')
    page = visit.open("/")
    expect(page.locator(".costs")).to_contain_text("47", timeout=60_000)
    report = page.locator(".prompt-report")
    expect(report).to_be_hidden()
    page.get_by_label("Prompts", exact=True).select_option("file")
    path = page.get_by_label("Path")
    path.fill(str(bad))
    problem = page.locator(".field", has=path).locator(".problem")
    expect(problem).to_contain_text("1 rows that are no prompts")
    expect(report).to_contain_text("1 lines are no prompts")
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_disabled()
    path.fill(str(good))
    expect(report).to_contain_text("3 prompts, 2 different")
    expect(report).to_contain_text("Tasks: x 2, y 1")
    report.get_by_text("1 texts occur more than once").click()
    expect(report.locator("li", has_text="a red circle").first).to_contain_text("2, 3")
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_enabled()
    expect(page.locator(".command")).to_contain_text("prompts={source: file, path:")
    visit.keep("launch-prompts")


def test_outcomes_go_by_strict_correctness_or_the_first_reward(visit: Visit, site: Site):
    pairs = "[[{strict: 0}, {strict: 1}], [{clip: 1}, {clip: 2}], [{clip: 1}, {clip: 1}], [{clip: null}, {clip: 1}]]"
    found = run(visit, "outcome", f"{pairs}.map(([a, b]) => m.outcome(a, b).words)")
    assert found == ["fixed by training", "better after training", "equal in both", "not scored"]
    kinds = "m.kindsOf([{kind: 'better', before: {scores: {clip: 1}}}]).map(([kind]) => kind)"
    assert run(visit, "outcome", kinds) == ["better", "worse", "equal"]
    assert run(visit, "outcome", "m.kindsOf([]).map(([kind]) => kind)") == ["fixed", "broken", "right", "wrong"]


def test_the_evaluation_table_leads_with_a_reward_where_nothing_is_strict(visit: Visit, site: Site):
    interval = "{mean: 0.5, low: 0.25, high: 0.75}"
    rewards = f"rewards: {{clip: {interval}}}"
    report = f"{{{rewards}, num_prompts: 2, tasks: {{dogs: {{count: 2, {rewards}}}}}}}"
    table = f"m.evaluationTable([{{step: 0, report: {report}}}])"
    rows = run(
        visit, "evaluation", f"[...{table}.querySelectorAll('tbody tr')].map((row) => [row.className, row.textContent])"
    )
    assert [name for name, _ in rows] == ["lead-row", ""]
    assert rows[0][1].startswith("clip reward0.5")
    assert rows[1][1].startswith("dogs 20.5")
