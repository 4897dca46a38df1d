// The launch page: preset, form or YAML, what it costs, the command that does the same, and the button.
import { asked, get, page, post, remember } from "./api.js";
import { card, el, fill, oneAtATime } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { Form } from "./form.js";
import { promptReport } from "./promptreport.js";
import { TreeView } from "./tree.js";

const FOLDED = ["sampling", "scoring", "optimizer", "evaluation", "logging"];

export async function mount(element) {
  fill(element, el("div.sheet", {}, el("div.empty", {}, el("p", {}, "Reading the settings of the methods…"))));
  const form = await get("form");
  const launch = new Launch(element, form);
  const clone = asked("clone");
  if (clone) launch.start((await get("runs/" + clone)).config, null);
  else launch.choose(form.presets.some((one) => one.name === asked("preset")) ? asked("preset") : form.default);
}

class Launch {
  constructor(element, form) {
    Object.assign(this, { described: form, view: "form" });
    this.check = oneAtATime(() => this.fetch());
    this.preset = el(
      "select",
      { "aria-label": "Preset", onchange: () => (remember({ preset: this.preset.value, clone: null }), this.choose(this.preset.value)) },
      form.presets.map((one) => el("option", { value: one.name }, one.title)),
      el("option", { value: "", hidden: true }, "own settings"),
    );
    this.views = ["form", "yaml"].map((name) =>
      el("button", { onclick: () => this.show(name) }, name === "form" ? "Form" : "YAML"),
    );
    this.fields = el("div.form");
    this.text = el("textarea.yaml", {
      spellcheck: "false",
      "aria-label": "Settings as YAML",
      oninput: () => this.typed(),
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => this.drop(event),
    });
    this.yamlTools = el(
      "div.row",
      {},
      el("span.quiet.small", {}, "Type, paste, or drop a file here. The form follows."),
      el("button.right-side", { onclick: () => this.download() }, "Download"),
    );
    this.yaml = el("div.yaml-view", { hidden: true }, this.yamlTools, this.text);
    this.loose = el("div", { role: "alert" });
    this.costs = el("div.costs");
    this.prompts = el("section.prompt-report", { "aria-label": "The prompts", "aria-live": "polite" });
    this.plan = new TreeView({ label: "The tree that each prompt grows" });
    this.command = el("pre.command", { tabindex: 0, "aria-label": "Shell command" });
    this.button = el("button.primary.big", { onclick: () => this.launch() }, "Launch");
    this.copy = el("button.plain", { onclick: () => navigator.clipboard.writeText(this.command.textContent) }, "Copy");
    fill(
      element,
      el(
        "div.sheet",
        {},
        el(
          "div.row.page-head",
          {},
          el("h1", {}, "Launch a run"),
          el(
            "div.row.right-side",
            {},
            el("label", {}, "Preset", this.preset),
            el("div.segments", { role: "group", "aria-label": "View" }, this.views),
          ),
        ),
        el(
          "div.launch",
          {},
          el("div", {}, this.loose, this.fields, this.yaml),
          el(
            "aside.card.price",
            { "aria-label": "What it costs" },
            el("header", {}, el("h2", {}, "Before you launch")),
            el("div.plan-tree", {}, this.plan.element),
            this.costs,
            el(
              "div.price-foot",
              {},
              this.button,
              el(
                "div.row",
                {},
                el("span.quiet.small", {}, "The same from a shell"),
                el("span.right-side", {}, this.copy),
              ),
              this.command,
            ),
            this.prompts,
          ),
        ),
      ),
    );
    this.show("form");
  }

  choose(name) {
    this.start(this.described.presets.find((one) => one.name === name)?.config ?? {}, name);
  }

  start(config, preset) {
    this.config = structuredClone(config);
    // the settings of a cloned run may be older than a group of them
    for (const name of FOLDED) this.config[name] ??= {};
    this.from = preset;
    this.preset.value = preset ?? "";
    this.build();
    this.changed({ config: this.config });
  }

  show(view) {
    this.view = view;
    this.fields.hidden = view !== "form";
    this.yaml.hidden = view !== "yaml";
    this.views.forEach((button, i) => button.setAttribute("aria-pressed", String(["form", "yaml"][i] === view)));
  }

  build() {
    const form = new Form(this.described.fields, this.config, () => this.changed({ config: this.config }));
    this.form = form;
    const model = form.find("model");
    const [family] = form.variants("model", model, true);
    family.addEventListener("change", () => this.build());
    const ofFamily = model.variants[this.config.model.family ?? Object.keys(model.variants)[0]];
    const base = ofFamily.find((field) => field.name === "base");
    const method = form.find("method");
    const [picker, methodFields] = form.variants("method", method, true);
    const [source, sourceFields] = form.variants("prompts", form.find("prompts"), true);
    const folded = (title, body, note) =>
      el(
        "details.card.fold-card",
        {},
        el("summary", {}, el("h2", {}, title), el("span.quiet.small", {}, note)),
        el("div.fields.body", {}, body),
      );
    fill(
      this.fields,
      el(
        "section.card",
        { "aria-label": "The run" },
        el(
          "div.fields.body.first",
          {},
          family,
          form.field("model.base", base),
          picker,
          source,
          sourceFields,
          form.field("steps"),
          form.field("name"),
          form.field("rewards"),
        ),
      ),
      folded("Method", methodFields, "tree, noise, clipping, pruning"),
      folded(
        "Model",
        form.many(
          "model",
          ofFamily.filter((field) => field.name !== model.tag),
          ["model.base"],
        ),
        "tuning, guidance",
      ),
      FOLDED.map((name) =>
        folded(
          title(name),
          form.many(
            name,
            form.find(name).fields.filter((field) => field.kind !== "choice" || field.choices.length > 1),
          ),
          NOTES[name],
        ),
      ),
      folded("Stored groups", form.field("groups"), "train offline, on samples that were made before"),
      folded("Randomness", form.field("seed"), "one seed decides every draw"),
    );
  }

  changed(wanted) {
    this.wanted = wanted;
    clearTimeout(this.timer);
    this.timer = setTimeout(this.check, 200);
  }

  typed() {
    this.changed({ text: this.text.value });
  }

  async drop(event) {
    event.preventDefault();
    const file = event.dataTransfer.files[0];
    if (!file) return;
    this.text.value = await file.text();
    this.typed();
  }

  download() {
    const link = el("a", {
      href: URL.createObjectURL(new Blob([this.text.value], { type: "application/yaml" })),
      download: "config.yaml",
    });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  async fetch() {
    const { wanted } = this;
    const draft = await post("draft", { ...wanted, preset: this.from });
    if (wanted !== this.wanted) return;
    this.button.disabled = draft.problems.length > 0;
    if (draft.config && wanted.text !== undefined) {
      this.config = draft.config;
      this.build();
    } else if (draft.text) this.text.value = draft.text;
    const loose = this.form.report(draft.problems);
    const all = this.view === "yaml" ? draft.problems : loose;
    fill(
      this.loose,
      all.map(({ field, text }) =>
        el("p.note.bad.small", {}, field && field !== "config" ? el("b", {}, field + ": ") : null, text),
      ),
    );
    fill(this.prompts, draft.prompts ? promptReport(draft.prompts) : null);
    if (!draft.plan) return;
    this.ready = draft.config;
    this.command.textContent = draft.command;
    fill(this.costs, costs(draft));
    this.plan.show(sketch(draft.plan));
  }

  async launch() {
    this.button.disabled = true;
    this.button.textContent = "Launching…";
    try {
      const { id } = await post("runs", { config: this.ready, preset: this.from || null });
      location.assign(page("run", { id }));
    } catch (error) {
      const told = error.body?.detail;
      const loose = Array.isArray(told) ? this.form.report(told) : [{ text: error.message }];
      fill(
        this.loose,
        loose.map(({ text }) => el("p.note.bad", {}, text)),
      );
      this.button.disabled = false;
      this.button.textContent = "Launch";
    }
  }
}

const NOTES = {
  sampling: "denoising steps, time shift",
  scoring: "rewards beside the rollout, on another GPU",
  optimizer: "learning rate, clipping, averaging",
  evaluation: "held-out prompts and seeds",
  logging: "how often trees, samples and checkpoints are kept",
};
const title = (name) => name.replace(/^./, (c) => c.toUpperCase());

function costs({ plan, memory, pace }) {
  const saved = 1 - plan.forwards_per_prompt / plan.forwards_if_independent;
  const row = (value, name, note) =>
    el("div", {}, el("b.num", {}, value), el("span", {}, name), el("span.quiet.small", {}, note));
  return [
    row(
      count(plan.forwards_per_prompt),
      "forwards per prompt",
      plan.forwards_per_prompt === 0
        ? "nothing is sampled: stored groups are trained on"
        : saved > 0
          ? `${plan.forwards_if_independent} if sampled apart: ${Math.round(100 * saved)} % saved`
          : "nothing is shared in a flat group",
    ),
    row(count(plan.num_leaves), "leaves per prompt", `${plan.num_steps} denoising steps`),
    plan.trained_edges
      ? row(count(plan.trained_edges), "trained edges", `of ${count(plan.edges)} per prompt`)
      : row("0", "trained edges", "final samples are noised again and trained on"),
    row(
      count(plan.training_forwards),
      "forwards with gradient",
      plan.evaluated_forwards ? `and ${count(plan.evaluated_forwards)} without, per prompt` : "per prompt",
    ),
    row(
      count(plan.samples_per_step),
      "samples per step",
      `${plan.prompts_per_step} prompts, ${plan.optimizer_steps} optimizer step${plan.optimizer_steps === 1 ? "" : "s"}`,
    ),
    row(count(plan.total_samples), "samples in all", `${count(plan.total_steps)} steps`),
    row(bytes(plan.latent_bytes_per_step), "of latents", "kept for one step"),
    row(
      memory ? bytes(memory.total) : "–",
      "of device memory",
      memory
        ? `estimated: ${bytes(memory.base)} base, ${bytes(memory.beside)} encoders, ${bytes(memory.trained)} trained, ` +
            `${bytes(Math.max(memory.training, memory.sampling, memory.decoding))} activations`
        : "the size of this base is not known",
    ),
    row(
      pace ? duration(pace.seconds) : "–",
      "of training",
      pace
        ? `by the forwards of ${pace.num_runs} earlier run${pace.num_runs === 1 ? "" : "s"} of this base here`
        : "unknown until the first step: this base has not been trained here",
    ),
  ];
}

// The planned tree as a record that the tree view can draw; children are spread evenly over their parents.
function sketch(plan) {
  const levels = plan.levels;
  return {
    step: 0,
    prompt_index: 0,
    prompt: "",
    level: levels.length,
    sigmas: [...levels.map((one) => one.sigma), levels.at(-1).sigma_next],
    rates: levels.map((one) => one.rate),
    parents: levels.map((one) =>
      Array.from({ length: one.children }, (_, i) => Math.floor((i * one.nodes) / one.children)),
    ),
    logps: [],
    values: [],
    advantages: [],
    keep: [],
    rewards: [],
    parts: {},
    sprite: null,
  };
}
