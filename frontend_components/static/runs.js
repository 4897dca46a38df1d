// The list of runs: filter, search, page by page, each row alive.
import { asked, follow, get, page, remember } from "./api.js";
import { el, fill, oneAtATime } from "./dom.js";
import { ago, duration, live, number, since } from "./format.js";
import { sparkline } from "./spark.js";

const FILTERS = [
  ["", "All"],
  ["active", "Active"],
  ["done", "Done"],
  ["failed", "Failed"],
];
const STATES = {
  "": [],
  active: ["queued", "starting", "running", "stopping"],
  done: ["done", "stopped", "paused"],
  failed: ["failed", "lost"],
};
const COLUMNS = ["State", "Name", "Method", "Progress", "Reward", "Last heard", "Created", ""];
const PAGE = 25;

export async function mount(element) {
  let filter = asked("state") in STATES ? asked("state") : "";
  let before = asked("before");
  let rows = [];
  const search = el("input", {
    type: "search",
    placeholder: "Search by name",
    value: asked("search") ?? "",
    "aria-label": "Search runs by name",
    oninput: () => ((before = null), load()),
  });
  const chips = el("div.row", { role: "group", "aria-label": "Filter by state" });
  const body = el("div.scroll");
  const pager = el("div.row.pager");
  fill(
    element,
    el(
      "div.sheet",
      {},
      el(
        "div.row.page-head",
        {},
        el("h1", {}, "Runs"),
        el("a.button.primary.right-side", { href: page("") }, "Launch a run"),
      ),
      el("section.card", { "aria-label": "Runs" }, el("header", {}, chips, el("span.push", {}, search)), body, pager),
    ),
  );

  const load = oneAtATime(async () => {
    const params = new URLSearchParams({ limit: PAGE, search: search.value });
    if (before) params.set("before", before);
    STATES[filter].forEach((state) => params.append("state", state));
    rows = await get("runs", params);
    remember({ state: filter, search: search.value, before });
    fill(
      chips,
      FILTERS.map(([name, label]) =>
        el(
          "button",
          { "aria-pressed": String(name === filter), onclick: () => ((filter = name), (before = null), load()) },
          label,
        ),
      ),
    );
    show();
  });
  const show = () => {
    fill(body, rows.length ? table(rows) : empty(filter || search.value || before));
    fill(
      pager,
      before ? el("button", { onclick: () => ((before = null), load()) }, "Newest") : null,
      rows.length === PAGE ? el("button", { onclick: () => ((before = rows.at(-1).id), load()) }, "Older") : null,
    );
  };

  await load();
  follow(null, element, { state: load, step: load, resync: load });
  // Ages grow by themselves; everything else changes only when the server says so.
  const ages = setInterval(() => (element.isConnected ? refreshAges(body) : clearInterval(ages)), 5000);
}

function table(rows) {
  return el(
    "table.runs",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        COLUMNS.map((name) => el("th", { scope: "col" }, name)),
      ),
    ),
    el("tbody", {}, rows.map(line)),
  );
}

function line(run) {
  const share = run.total_steps ? run.step / run.total_steps : 0;
  const left =
    live(run.state) && run.seconds_per_step
      ? duration(run.seconds_per_step * (run.total_steps - run.step)) + " left"
      : "";
  return el(
    "tr",
    {},
    el("td", {}, el("span", { class: "state " + run.state, title: run.state_why || null }, run.state)),
    el(
      "td",
      {},
      el("a.run-name", { href: page("run", { id: run.id }) }, run.name),
      el("div.quiet.small", {}, run.model),
    ),
    el("td", {}, run.method || "–"),
    el(
      "td.progress",
      {},
      el(
        "div.row.small",
        {},
        el("span", {}, `${run.step} / ${run.total_steps}`),
        el("span.quiet.right-side", {}, left),
      ),
      el("div.bar", {}, el("i", { style: { width: 100 * share + "%" } })),
    ),
    el("td", {}, el("div.row.tight", {}, sparkline(run.sparkline), el("b.num", {}, number(run.last_reward)))),
    el("td.quiet.age", { "data-time": run.heartbeat_at ?? "" }, ago(run.heartbeat_at)),
    el("td.quiet.age", { "data-time": run.created_at }, ago(run.created_at)),
    el(
      "td",
      {},
      el("a", { href: page("tree", { id: run.id }) }, "Tree"),
      " · ",
      el("a", { href: page("compare", { run: run.id }) }, "Compare"),
    ),
  );
}

function refreshAges(body) {
  for (const cell of body.querySelectorAll(".age")) {
    if (cell.dataset.time && since(cell.dataset.time) !== null) cell.textContent = ago(cell.dataset.time);
  }
}

function empty(filtered) {
  return filtered
    ? el(
        "div.empty",
        {},
        el("h2", {}, "No run matches"),
        el("p", {}, "Choose another state, or search for part of a name."),
      )
    : el(
        "div.empty",
        {},
        el("h2", {}, "Nothing planted yet"),
        el("p", {}, "The default preset trains BranchGRPO on Shapes on this machine, without any download."),
        el("a.button.primary", { href: page("") }, "Launch the first run"),
      );
}
