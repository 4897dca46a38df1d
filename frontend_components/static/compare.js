// Base and tuned side by side: the same prompts, the same seeds, two steps of training.
import { asked, follow, get, page, remember } from "./api.js";
import { card, el, fill, oneAtATime } from "./dom.js";
import { evaluationTable } from "./evaluation.js";
import { number } from "./format.js";
import { kindsOf, mark, outcome } from "./outcome.js";
import { frame, sampleElement } from "./sample.js";
import { pressed, Transport } from "./transport.js";
import { Wipe } from "./wipe.js";
import { Zoom } from "./zoom.js";

export async function mount(element) {
  const runs = await get("runs", { limit: 100 });
  const id = asked("run") ?? runs.find((run) => run.state === "done")?.id ?? runs[0]?.id;
  if (!id) {
    fill(
      element,
      el(
        "div.sheet",
        {},
        el(
          "section.card.empty",
          {},
          el("h2", {}, "Nothing to compare yet"),
          el(
            "p",
            {},
            "A run keeps held-out samples of its base and of its trained weights. They appear here side by side.",
          ),
          el("a.button.primary", { href: page("") }, "Launch a run"),
        ),
      ),
    );
    return;
  }
  await new Compare(element, id, runs).load();
}

class Compare {
  constructor(element, run, runs) {
    Object.assign(this, { run, pairs: [], kind: asked("show") ?? "", task: asked("task") ?? "" });
    this.load = oneAtATime(() => this.fetch());
    const known = runs.some((one) => one.id === run) ? runs : [{ id: run, name: run, state: "" }, ...runs];
    const picker = el(
      "select",
      { "aria-label": "Run", onchange: () => location.assign(page("compare", { run: picker.value })) },
      known.map((one) => el("option", { value: one.id, selected: one.id === run }, `${one.name} (${one.state})`)),
    );
    this.left = this.stepPicker("base");
    this.right = this.stepPicker("tuned");
    this.chips = el("div.row", { role: "group", "aria-label": "Filter by outcome" });
    this.tasks = el("select", { "aria-label": "Task", onchange: () => ((this.task = this.tasks.value), this.show()) });
    this.grid = el("div.pairs");
    this.transport = new Transport();
    this.zoom = new Zoom(this.grid);
    this.evaluation = el("div.scroll");
    this.tally = el("div.tally");
    this.wipe = new Wipe();
    fill(
      element,
      el(
        "div.sheet",
        {},
        el(
          "div.row.page-head",
          {},
          el("h1", {}, "Compare"),
          el(
            "div.row.right-side",
            {},
            el("label", {}, "Run", picker),
            el("label", {}, "Left", this.left),
            el("label", {}, "Right", this.right),
            el(
              "button",
              { onclick: () => this.judge(), title: "Makes a review set of these two steps" },
              "Judge these blind",
            ),
          ),
        ),
        el(
          "div.verdict",
          {},
          card("Held-out evaluation", this.evaluation),
          card("Outcomes of the samples below", this.tally),
        ),
        el(
          "section.card",
          { "aria-label": "Samples" },
          el("header", {}, this.chips, el("label.push", {}, "Task", this.tasks)),
          el("div.row.view-bar", {}, this.transport.element, this.zoom.element),
          this.grid,
        ),
        this.wipe.element,
      ),
    );
    const keys = (event) => {
      if (!this.grid.isConnected) removeEventListener("keydown", keys);
      else if (!this.wipe.element.open) pressed(event, this.transport, this.zoom);
    };
    addEventListener("keydown", keys);
    follow(run, element, { evaluation: this.load, samples: this.load, resync: this.load });
  }

  stepPicker(name) {
    const select = el("select", {
      "aria-label": `Training step of the ${name} side`,
      onchange: () => (remember({ [name]: select.value }), this.load()),
    });
    return select;
  }

  async fetch() {
    const [steps, evaluations] = await Promise.all([
      get(`runs/${this.run}/samples/test`),
      get(`runs/${this.run}/evaluations`),
    ]);
    this.offer(this.left, steps, asked("base"), steps[0]);
    this.offer(this.right, steps, asked("tuned"), steps.at(-1));
    const [from, to] = [Number(this.left.value), Number(this.right.value)];
    const sides = evaluations.filter((one) => one.step === from || one.step === to);
    fill(this.evaluation, evaluationTable(sides, to));
    if (!steps.length) {
      fill(this.tally, el("p.quiet.nothing", {}, "No held-out samples yet."));
      fill(
        this.grid,
        el(
          "div.empty",
          {},
          el("h2", {}, "No samples yet"),
          el("p", {}, "The base is sampled before the first training step, the tuned model after the last."),
        ),
      );
      return;
    }
    const [before, after] = await Promise.all([from, to].map((step) => get(`runs/${this.run}/samples/test/${step}`)));
    const key = (row) => row.prompt_index + "/" + row.seed;
    const found = new Map(after.map((row) => [key(row), row]));
    this.pairs = before.filter((row) => found.has(key(row))).map((row) => pair(row, found.get(key(row)), from, to));
    this.show();
  }

  offer(select, steps, wanted, otherwise) {
    const chosen = steps.includes(Number(wanted)) && wanted !== null ? Number(wanted) : otherwise;
    fill(
      select,
      steps.map((step) =>
        el("option", { value: step, selected: step === chosen }, step === 0 ? "base (step 0)" : "step " + step),
      ),
    );
  }

  /** Opens the form of a review set with what is compared here. */
  judge() {
    const only = ["broken", "fixed"].includes(this.kind) ? { only: this.kind } : {};
    location.assign(page("reviews", { run: this.run, left: this.left.value, right: this.right.value, ...only }));
  }

  show() {
    remember({ show: this.kind, task: this.task });
    const tasks = [...new Set(this.pairs.map((one) => one.task).filter(Boolean))].toSorted();
    fill(
      this.tasks,
      el("option", { value: "" }, "all tasks"),
      tasks.map((task) => el("option", { value: task, selected: task === this.task }, task)),
    );
    const ofTask = this.pairs.filter((one) => !this.task || one.task === this.task);
    const kinds = kindsOf(this.pairs);
    if (!kinds.some(([kind]) => kind === this.kind)) this.kind = "";
    const chips = [["", "All"], ...kinds];
    const counts = Object.fromEntries(
      chips.map(([kind]) => [kind, ofTask.filter((one) => !kind || one.kind === kind).length]),
    );
    fill(
      this.chips,
      chips.map(([kind, label]) =>
        el(
          "button",
          { "aria-pressed": String(kind === this.kind), onclick: () => ((this.kind = kind), this.show()) },
          `${label} ${counts[kind]}`,
        ),
      ),
    );
    fill(this.tally, tally(kinds, counts));
    const shown = ofTask.filter((one) => !this.kind || one.kind === this.kind);
    fill(
      this.grid,
      shown.length
        ? shown.map((one, i) => this.pairCard(one, () => this.enlarge(shown, i)))
        : el("div.empty", {}, el("p", {}, "No sample of this kind.")),
    );
    this.transport.show(this.grid);
  }

  enlarge(shown, i) {
    this.transport.clock.pause();
    this.wipe.open(shown, i);
  }

  pairCard(one, open) {
    return el(
      "button.pair",
      { onclick: open, "aria-label": `${one.prompt}: ${one.words}. Open large.` },
      el(
        "span.both",
        {},
        side(one.before, one.from === 0 ? "base" : "step " + one.from),
        side(one.after, one.to === 0 ? "base" : "step " + one.to),
      ),
      el("span.pair-prompt", {}, one.prompt),
      el("span.quiet.small", {}, [one.task, "seed " + one.before.seed].filter(Boolean).join(" · ")),
    );
  }
}

function pair(before, after, from, to) {
  return { before, after, from, to, ...outcome(before.scores, after.scores), prompt: before.prompt, task: before.task };
}

function side(row, name) {
  return el(
    "span.side",
    {},
    frame(sampleElement(row, { alt: "" }), row),
    el("span.row.tight.small", {}, name, mark(row.scores)),
  );
}

function tally(kinds, counts) {
  const all = counts[""] || 1;
  const part = ([kind, label, tint]) =>
    el(
      "div",
      {},
      el("b.num", {}, String(counts[kind])),
      el("span", {}, label.toLowerCase()),
      el("div.bar", {}, el("i", { style: { width: (100 * counts[kind]) / all + "%", background: `var(--${tint})` } })),
      el("span.quiet.num", {}, number((100 * counts[kind]) / all, 0) + " %"),
    );
  return el(
    "div.tally-rows",
    {},
    kinds.map(part),
    el("p.quiet.small", {}, "These samples are a part of the held-out prompts; the table counts all of them."),
  );
}
