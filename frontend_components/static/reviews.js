// Review sets: what there is to judge, how far it is, and the set whose reviewers are shown.
import { asked, get, page, remember } from "./api.js";
import { el, fill, oneAtATime } from "./dom.js";
import { ago, count } from "./format.js";
import { importVotes } from "./importvotes.js";
import { newSet } from "./newset.js";
import { ReviewSet } from "./reviewset.js";

const REFRESH = 5000; // ms: votes come from other browsers

export async function mount(element) {
  let chosen = asked("set");
  const list = el("div.scroll");
  const one = el("div.stack");
  const form = el("div");
  const write = el("button.primary", { onclick: () => open(true) }, "New review set");
  const head = el("div.row.page-head", {}, el("h1", {}, "Reviews"), el("span.right-side", {}, write));

  const open = async (wanted, prefill = {}) => {
    write.disabled = wanted;
    if (!wanted) return fill(form);
    fill(
      form,
      await newSet(
        prefill,
        (id) => (open(false), choose(id)),
        () => open(false),
      ),
    );
    form.querySelector("input, select")?.focus();
  };
  const choose = async (id) => {
    chosen = id;
    remember({ set: id, kind: null, run: null, left: null, right: null, only: null });
    fill(one);
    await load();
  };
  fill(element, el("div.sheet.reviews", {}, head, form, one, list, importVotes(choose)));

  const load = oneAtATime(async () => {
    const sets = await get("review-sets");
    // Drawing the list again takes the keyboard's place in it, so it is done for news alone.
    const seen = JSON.stringify([sets, chosen]);
    if (seen !== list.seen) fill(list, sets.length ? table(sets, chosen, choose) : empty(() => open(true)));
    list.seen = seen;
    if (!sets.some(({ id }) => id === chosen)) return fill(one);
    if (one.firstChild?.dataset.set !== chosen) fill(one, (one.shown = new ReviewSet(chosen, load)).element);
    await one.shown.load();
  });

  await load();
  if (asked("run")) {
    const [kind, run, left, right, only] = ["kind", "run", "left", "right", "only"].map(asked);
    await open(true, { kind, run, left, right, only });
  }
  const timer = setInterval(() => (element.isConnected ? load() : clearInterval(timer)), REFRESH);
}

function table(sets, chosen, choose) {
  const heads = ["State", "Name", "Pairs", "Votes", "Reviewers", "Created", ""];
  return el(
    "section.card",
    { "aria-label": "Review sets" },
    el(
      "table.runs",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((name) => el("th", { scope: "col", class: NUMBERS.has(name) ? "num" : null }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        sets.map((set) => line(set, set.id === chosen, choose)),
      ),
    ),
  );
}

const NUMBERS = new Set(["Pairs", "Votes", "Reviewers"]);

function line(set, shown, choose) {
  return el(
    "tr",
    { "aria-current": shown ? "true" : null },
    el("td", {}, state(set)),
    el("td", {}, el("button.link.set-name", { onclick: () => choose(set.id) }, set.name)),
    el("td.num", {}, count(set.pairs)),
    el("td.num", {}, count(set.votes)),
    el("td.num", {}, count(set.reviewers)),
    el("td.quiet.age", {}, ago(set.created_at)),
    el(
      "td",
      {},
      el("button.link", { onclick: () => choose(set.id) }, "Reviewers"),
      " · ",
      el("a", { href: page("leaderboard", { set: set.id }) }, "Leaderboard"),
    ),
  );
}

export function state(set) {
  return el("span", { class: "state " + (set.closed_at ? "stopped" : "running") }, set.closed_at ? "closed" : "open");
}

function empty(open) {
  return el(
    "section.card.empty",
    {},
    el("h2", {}, "Nothing to judge yet"),
    el(
      "p",
      {},
      "A review set shows people pairs of samples, one beside the other, without saying which model made which.",
    ),
    el("button.primary", { onclick: open }, "Make the first review set"),
  );
}
