"""The pure scripts, with known answers, in the browser they are made for. And what they must never do."""

import re
from typing import Any

import pytest

from backend.media import FRAMES_PER_SECOND
from frontend_components.page import STATIC
from tests.browser.conftest import Site, Visit

TREE = """{step: 1, prompt_index: 0, prompt: "p", level: 3, sigmas: [1, 0.6, 0.3, 0], rates: [1, 1, 0],
  parents: [[0, 0], [0, 1, 1], [0, 1, 2]], logps: [[-1, -2], [-1, -1, -3], [null, null, null]],
  values: [[2], [3, 1.5], [3, 1, 2], [3, 1, 2]], advantages: [[1, -1], [2, -1, -1], [2, -1, -1]],
  keep: [[true, true], [true, false, true], [true, false, true]],
  rewards: [3, 1, 2], parts: {a: [3, 1, 2]}, sprite: null}"""


def run(visit: Visit, script: str, expression: str) -> Any:
    page = visit.page
    if not page.url.startswith(visit.base):
        page.goto(visit.base + "/runs")
    return page.evaluate(f"import('/ui/{script}.js').then((m) => {expression})")


def test_layout_places_leaves_in_order_and_parents_between(visit: Visit, site: Site):
    ys = run(visit, "layout", f"m.nodesOf({TREE}).map((level) => level.filter(m.isKnot).map((node) => node.y))")
    # leaves 0, 1, 2; the split over leaves 1 and 2 at 1.5; the root over children 0 and 1.5 at 0.75
    assert ys == [[0.75], [1.5], [], [0, 1, 2]]


def test_layout_crosses_no_branches(visit: Visit, site: Site):
    tangled = TREE.replace("[[0, 0], [0, 1, 1]", "[[0, 0], [1, 0, 1]")
    levels = run(visit, "layout", f"m.nodesOf({tangled}).map((l) => l.map((n) => [n.parent?.index ?? 0, n.y]))")
    by_height = sorted(levels[2], key=lambda pair: pair[1])
    assert [parent for parent, _ in by_height] == [0, 1, 1]


def test_path_probability_is_the_sum_of_steps(visit: Visit, site: Site):
    paths = run(visit, "layout", f"m.nodesOf({TREE})[3].map((node) => node.path)")
    assert paths == [-2, -3, -5]  # -1 - 1, -2 - 1, -2 - 3; the deterministic step adds nothing


def test_inner_nodes_average_their_leaves(visit: Visit, site: Site):
    parts = run(visit, "layout", f"m.nodesOf({TREE}).map((level) => level.map((node) => node.parts.a))")
    assert parts[0] == [pytest.approx(2)]
    assert parts[1] == [3, 1.5]


def test_siblings_left_the_same_split(visit: Visit, site: Site):
    ask = (
        f"(() => {{ const l = m.nodesOf({TREE}); return l[3].map((n) => m.siblingsOf(n, l).map((s) => s.index)); }})()"
    )
    # leaves 1 and 2 come from the split of node 1 at level 1; leaf 0 alone from the root's first child
    assert run(visit, "layout", ask) == [[], [2], [1]]


def test_a_tree_that_is_still_growing_has_no_credit(visit: Visit, site: Site):
    grown = (
        "{...%s, level: 1, parents: [[0, 0]], logps: [], values: [], advantages: [], keep: [], rewards: [], parts: {}}"
    )
    nodes = run(visit, "layout", f"m.nodesOf({grown % TREE}).flat().map((n) => [n.advantage, n.kept, n.tip])")
    assert nodes == [[None, True, False], [None, True, True], [None, True, True]]


def test_smoothing_has_no_start_bias_and_keeps_gaps(visit: Visit, site: Site):
    assert run(visit, "figures", "m.smooth([2, 2, null, 2], 0.9)") == pytest.approx([2, 2, None, 2])
    # weights 0.5 and 1 of the last two: (0.5 * 0 + 1 * 3) / 1.5
    assert run(visit, "figures", "m.smooth([0, 3], 0.5)") == pytest.approx([0, 2])


def test_numbers_read_well(visit: Visit, site: Site):
    assert run(
        visit, "format", "[m.number(null), m.number(-0.5, 2), m.number(2e-7), m.percent(0.123), m.signed(1)]"
    ) == [
        "–",
        "−0.50",
        "2.00e−7",
        "12.3 %",
        "+1.000",
    ]
    assert run(visit, "format", "[m.duration(59), m.duration(75), m.duration(7260), m.duration(90000)]") == [
        "59 s",
        "1 min 15 s",
        "2 h 1 min",
        "1 d 1 h",
    ]


def test_a_long_live_page_does_not_grow(visit: Visit, site: Site):
    page = visit.open(f"/run?id={site.done}")
    page.wait_for_selector(".plot .main-svg")
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def heap() -> float:
        page.evaluate("gc()")
        found = {metric["name"]: metric["value"] for metric in devtools.send("Performance.getMetrics")["metrics"]}
        return found["JSHeapUsedSize"]

    again = """async (rounds) => {
      const canvas = document.querySelector(".tree-small canvas");
      for (let i = 0; i < rounds; i++) {
        canvas.espalier.show(canvas.espalier.tree);
        await new Promise((ready) => requestAnimationFrame(ready));
      }
    }"""
    page.evaluate(again, 20)
    before = heap()
    page.evaluate(again, 60)
    assert heap() - before < 2e6


SCRIPTS = sorted(path for path in STATIC.glob("*.js"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_parses_what_it_is_given(path):
    text = path.read_text()
    for never in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert never not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert len(text.splitlines()) <= 400


def test_samples_that_were_not_judged_have_a_chart_and_are_no_part_of_the_reward(visit: Visit, site: Site):
    curves = """{steps: [1, 2, 3], times: [], values: {"train/reward_mean": [1, 1, 1], "train/reward_std": [0, 0, 0],
      "train/reward_ocr": [1, 1, 1], "train/reward_hook": [2, 2, 2], "train/reward_failed_ocr": [null, 2, null]}}"""
    counted = run(visit, "figures", f"m.failedFigure({curves}, 0).data.map((line) => [line.name, line.y])")
    assert counted == [["ocr", [0, 2, 0]]]
    names = run(visit, "figures", f"m.rewardFigure({curves}, 0).data.map((line) => line.name)")
    assert {"ocr", "hook"} <= set(names)
    assert not [name for name in names if name and "failed" in name]


def test_the_evaluation_table_tells_held_out_rewards_and_what_was_not_judged(visit: Visit, site: Site):
    report = """{rewards: {ocr: {mean: 0.5, low: 0.4, high: 0.6, failed: 3}, hook: {mean: null, low: null, high: null,
      failed: 9}}, held_out: ["hook"], num_prompts: 9, seeds: [1]}"""
    text = run(visit, "evaluation", f"m.evaluationTable([{{step: 0, report: {report}}}]).textContent")
    assert "ocr reward" in text
    assert "3 not judged" in text
    assert "hook held-out reward" in text


def test_a_zoom_keeps_the_point_under_the_pointer_and_fills_the_cell(visit: Visit, site: Site):
    # 0.25 of a whole picture stays where it is at twice the size: 0.25 - 2 * 0.25
    assert run(visit, "zoom", "m.shifted(0, 0.25, 1, 2)") == -0.25
    assert run(visit, "zoom", "m.shifted(-0.25, 0.25, 2, 4)") == -0.75
    assert run(visit, "zoom", "[m.shifted(-0.25, 1, 2, 1), m.shifted(0, 0, 1, 4)]") == [0, 0]


def test_a_video_that_has_looped_is_ahead_of_one_that_is_about_to(visit: Visit, site: Site):
    assert run(visit, "clock", "m.ahead(0.1, 1.9, 2)") == pytest.approx(0.2)
    assert run(visit, "clock", "m.ahead(1.9, 0.1, 2)") == pytest.approx(-0.2)
    assert run(visit, "clock", "m.ahead(0.5, 0.4, 2)") == pytest.approx(0.1)


def test_the_clock_counts_the_frames_that_videos_are_stored_with(visit: Visit, site: Site):
    assert run(visit, "clock", "m.FRAMES_PER_SECOND") == FRAMES_PER_SECOND
