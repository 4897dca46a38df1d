// What a review set compares: two or more models on the same prompts and noises, or one model on two noises.
import { get } from "./api.js";
import { el, fill } from "./dom.js";

const KINDS = [
  ["models", "Models, on the same noise"],
  ["seeds", "One model, on two noises"],
];

export class Models {
  /** prefill: {kind, run, left, right}; without it, the base and the last step of the newest finished run. */
  constructor(runs, prefill) {
    this.runs = runs;
    this.rows = el("div.stack");
    this.onchange = () => {};
    this.kind = el(
      "select",
      { "aria-label": "Kind of comparison", onchange: () => (this.number(), this.onchange()) },
      KINDS.map(([value, label]) => el("option", { value, selected: value === prefill.kind }, label)),
    );
    this.another = el(
      "div",
      {},
      el("button", { type: "button", onclick: () => this.add(this.models.at(-1).run.value) }, "Add a model"),
    );
    this.note = el(
      "span.help",
      {},
      "Two samples of a prompt differ more than base and tuned on one noise do, so that more votes choose: what training on votes wants. They do not rate the model. The run has to keep two samples a prompt (evaluation.shown_seeds).",
    );
    this.element = el("div.stack", {}, el("div", {}, this.kind), this.rows, this.another, this.note);
    this.models = [];
    const run = prefill.run ?? runs.find((one) => one.state === "done")?.id ?? runs[0]?.id;
    this.add(run, prefill.left ?? "first");
    this.add(run, prefill.right ?? "last");
  }

  /** Whether samples of one model are compared. */
  get seeds() {
    return this.kind.value === "seeds";
  }

  /** The run and step whose failures may be chosen: the only model, or the second of two. */
  get judged() {
    return this.seeds ? this.models[0] : this.models[1];
  }

  add(runId, wanted = "last") {
    const run = el(
      "select",
      { "aria-label": "Run", onchange: () => this.offer(model, "last") },
      this.runs.map((one) => el("option", { value: one.id, selected: one.id === runId }, one.name)),
    );
    const step = el("select", { "aria-label": "Step", onchange: () => this.onchange() });
    const drop = el(
      "button.plain",
      { type: "button", "aria-label": "Remove this model", onclick: () => this.remove(model) },
      "Remove",
    );
    const model = { run, step, drop, row: el("div.row.model-row", {}, run, step, drop) };
    this.models.push(model);
    this.rows.append(model.row);
    this.number();
    this.offer(model, wanted);
  }

  remove(model) {
    model.row.remove();
    this.models = this.models.filter((one) => one !== model);
    this.number();
    this.onchange();
  }

  number() {
    this.another.hidden = this.seeds;
    this.note.hidden = !this.seeds;
    this.models.forEach(({ row, drop }, place) => {
      row.hidden = this.seeds && place > 0;
      drop.hidden = this.seeds || this.models.length <= 2;
    });
  }

  /** The steps of a run at which the held-out prompts were sampled. */
  async offer(model, wanted) {
    const steps = model.run.value ? await get(`runs/${model.run.value}/samples/test`) : [];
    const chosen = wanted === "first" ? steps[0] : wanted === "last" ? steps.at(-1) : Number(wanted);
    fill(
      model.step,
      steps.map((step) =>
        el("option", { value: step, selected: step === chosen }, step === 0 ? "base (step 0)" : "step " + step),
      ),
    );
    if (!steps.length) fill(model.step, el("option", { value: "" }, "no samples yet"));
    this.onchange();
  }

  list() {
    return (this.seeds ? this.models.slice(0, 1) : this.models).map(({ run, step }) => {
      if (step.value === "") throw new Error(`${named(run) || "run"}: it has no held-out samples to compare yet`);
      return { run: run.value, step: Number(step.value) };
    });
  }

  /** The source of the set. only: which prompts, null for all; prompts: the lines of a file, or null. */
  source(only, prompts) {
    const models = this.list();
    const [left, right] = models;
    const some = { ...(only ? { only } : {}), ...(prompts ? { prompts } : {}) };
    if (this.seeds) return { kind: "seeds", ...left, ...some };
    const two = models.length === 2 && left.run === right.run;
    if (!two) {
      if (only || prompts) throw new Error("Prompts: only two steps of one run can be restricted to some prompts");
      return { kind: "runs", models };
    }
    const sides = { run: left.run, left: left.step, right: right.step };
    return { kind: prompts ? "prompts" : "comparison", ...sides, ...some };
  }

  /** A name that says what is compared, for the people who made the set. */
  name() {
    const label = ({ run, step }) => `${named(run)} ${step.value === "0" ? "base" : "step " + step.value}`;
    const [first, ...others] = this.models;
    if (this.seeds) return label(first).replace(named(first.run), named(first.run) + ":") + ", two noises";
    const same = others.every(({ run }) => run.value === first.run.value);
    const parts = same
      ? this.models.map(({ step }) => (step.value === "0" ? "base" : "step " + step.value))
      : this.models.map(label);
    return (same ? named(first.run) + ": " : "") + parts.join(" and ");
  }
}

const named = (run) => run.selectedOptions[0]?.textContent ?? "";
