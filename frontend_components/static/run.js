// One run: state, reward, growing tree, the other curves, samples, evaluation, settings and log.
import { asked, follow, get, page } from "./api.js";
import { card, el, fill, oneAtATime } from "./dom.js";
import { Chart } from "./charts.js";
import { depthMap } from "./figures.js";
import { Header } from "./header.js";
import { Curves } from "./curves.js";
import { evaluationTable } from "./evaluation.js";
import { Samples } from "./samples.js";
import { LiveTree } from "./livetree.js";
import { bytes, clock } from "./format.js";

export async function mount(element) {
  const id = asked("id");
  let run;
  try {
    run = await get("runs/" + (id ?? "-"));
  } catch (error) {
    fill(
      element,
      el(
        "div.sheet",
        {},
        el(
          "section.card.empty",
          {},
          el("h2", {}, "No such run"),
          el("p", {}, id ? error.message : "The address names no run."),
          el("a.button", { href: page("runs") }, "All runs"),
        ),
      ),
    );
    return;
  }
  document.title = run.name + " – Espalier";
  const header = new Header(run);
  const curves = new Curves(id);
  const tree = new LiveTree(id);
  const samples = new Samples(id);
  const evaluation = el("div");
  const depths = new Chart(268, "Largest advantage by depth and training step");
  const log = el("div");
  const settings = el("div");
  fill(
    element,
    el(
      "div.sheet",
      {},
      header.element,
      el("div.lead", {}, curves.reward, tree.element),
      samples.element,
      el(
        "div.two",
        {},
        card(
          "Held-out evaluation",
          evaluation,
          el("a.push", { href: page("compare", { run: id }) }, "Compare side by side"),
        ),
        card("Advantage by depth", depths.element, el("span.quiet.small", {}, "largest at each depth")),
      ),
      curves.grid,
      el("div.two", {}, curves.loss, log),
      settings,
    ),
  );

  const loadRun = oneAtATime(async () => {
    run = await get("runs/" + id);
    header.show(run);
    fill(log, logCard(run));
    showSettings(settings, run, await get(`runs/${id}/checkpoints`));
  });
  const loadEvaluation = oneAtATime(async () => fill(evaluation, evaluationTable(await get(`runs/${id}/evaluations`))));
  const loadDepths = oneAtATime(async () => {
    const rows = await get(`runs/${id}/depths`);
    depths.draw(() => depthMap(rows));
  });
  const loadAll = () => [loadRun(), curves.load(), tree.load(), samples.load(), loadEvaluation(), loadDepths()];
  header.onaction = loadRun;
  follow(id, element, {
    link: (up) => header.link(up),
    state: loadRun,
    step: (change) => (header.step(change), curves.add(change)),
    progress: (change) => header.progress(change),
    tree: (change) => (header.heard(), tree.load(), change.complete && loadDepths()),
    samples: () => samples.load(),
    evaluation: loadEvaluation,
    checkpoint: loadRun,
    resync: loadAll,
  });
  await Promise.all(loadAll());
}

function logCard(run) {
  return card(
    "Log",
    el("pre.log", { tabindex: 0, "aria-label": "Last lines of the log" }, run.log_tail || "Nothing logged yet."),
    el("span.quiet.small.push", {}, "last lines"),
  );
}

function showSettings(host, run, checkpoints) {
  const facts = Object.entries(run.facts ?? {});
  const open = new Set([...host.querySelectorAll("details[open]")].map((node) => node.dataset.name));
  const folded = (name, body) =>
    el("details.fold", { "data-name": name, open: open.has(name) }, el("summary", {}, name), body);
  fill(
    host,
    card(
      "Settings and facts",
      el(
        "div.body.stack",
        {},
        folded("Settings", el("pre", {}, JSON.stringify(run.config, null, 2))),
        folded(
          "Environment",
          facts.length
            ? el(
                "table",
                {},
                el(
                  "tbody",
                  {},
                  facts.map(([name, value]) =>
                    el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, el("code", {}, String(value)))),
                  ),
                ),
              )
            : el("p.quiet", {}, "Known when the trainer has started."),
        ),
        folded(
          "Checkpoints",
          checkpoints.length
            ? el(
                "table",
                {},
                el(
                  "tbody",
                  {},
                  checkpoints.map((c) =>
                    el(
                      "tr",
                      {},
                      el("td", {}, el("code", {}, c.path)),
                      el("td.num", {}, bytes(c.bytes)),
                      el("td.quiet", {}, clock(c.created_at)),
                    ),
                  ),
                ),
              )
            : el("p.quiet", {}, "None saved yet."),
        ),
      ),
    ),
  );
}
