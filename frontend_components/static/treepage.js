// The tree page: one training step, one prompt; sliders over both; what the whole run's credit looks like by depth.
import { asked, follow, get, page, remember } from "./api.js";
import { Chart } from "./charts.js";
import { card, el, fill, oneAtATime } from "./dom.js";
import { depthMap, depthSpread } from "./figures.js";
import { nodePanel, nodeTable, legend } from "./node.js";
import { TreeView } from "./tree.js";

export async function mount(element) {
  const run = asked("id");
  if (!run) {
    fill(
      element,
      el(
        "div.sheet",
        {},
        el(
          "section.card.empty",
          {},
          el("h2", {}, "No run chosen"),
          el("p", {}, "A tree belongs to a run."),
          el("a.button", { href: page("runs") }, "Choose a run"),
        ),
      ),
    );
    return;
  }
  const record = await get("runs/" + run);
  const trees = await get(`runs/${run}/trees`);
  new TreePage(element, run, record, trees);
}

class TreePage {
  constructor(element, run, record, trees) {
    this.element = element;
    this.run = run;
    this.record = record;
    this.trees = trees;
    this.view = new TreeView({ onselect: (node) => this.pick(node) });
    this.view.onsprite = () => this.pick(this.view.chosen, false);
    this.prompt = asked("prompt") === null ? null : Number(asked("prompt"));
    this.step = asked("step") === null ? null : Number(asked("step"));
    this.following = this.step === null;
    this.build();
    this.load = oneAtATime(() => this.fetch());
    this.loadDepths = oneAtATime(() => this.fetchDepths());
    this.refresh();
    this.loadDepths();
    follow(run, element, {
      tree: (change) => this.grew(change),
      resync: () => this.reload(),
    });
  }

  build() {
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 0,
      step: 1,
      "aria-label": "Training step",
      oninput: () => this.seek(Number(this.slider.value)),
    });
    this.where = el("b.num.where");
    this.prompts = el("select", {
      "aria-label": "Prompt",
      onchange: () => this.choosePrompt(Number(this.prompts.value)),
    });
    this.play = el(
      "button",
      { onclick: () => (this.playing ? this.pause() : this.start()), "aria-label": "Play through training steps" },
      "Play",
    );
    this.live = el(
      "button",
      {
        onclick: () => this.follow(),
        "aria-pressed": this.following ? "true" : "false",
        title: "Always show the newest tree",
      },
      "Follow live",
    );
    this.unfold = el("button", { "aria-pressed": "false", onclick: () => this.toggleFold() }, "Unfold every step");
    this.panel = el("div.panel-slot");
    this.legend = el("div");
    this.caption = el("p.prompt-line");
    this.table = el(
      "details.table-alt",
      { ontoggle: () => this.tabulate() },
      el("summary", {}, "Nodes as a table"),
      el("div.scroll"),
    );
    this.depths = new Chart(300, "Advantage by depth and training step");
    this.spread = new Chart(300, "Spread of advantage by depth");
    this.empty = el(
      "div.empty",
      { hidden: true },
      el("h2", {}, "No tree yet"),
      el("p", {}, "The first one appears when the run has sampled its first level."),
    );
    this.stage = el("div.tree-stage", {}, this.view.element, this.panel);
    fill(
      this.element,
      el(
        "div.sheet",
        {},
        el(
          "div.row.page-head",
          {},
          el(
            "div",
            {},
            el("p.quiet.small", {}, el("a", { href: page("run", { id: this.run }) }, this.record.name), " / tree"),
            el("h1", {}, "Rollout tree"),
          ),
          el("div.row.right-side", {}, el("label", {}, "Prompt", this.prompts)),
        ),
        el(
          "section.card.tree-card",
          { "aria-label": "Rollout tree" },
          el(
            "header",
            {},
            this.play,
            el("label.grow", {}, "Training step", this.slider),
            this.where,
            this.live,
            this.unfold,
            el(
              "span.row.zoom",
              {},
              el("button", { "aria-label": "Zoom out", onclick: () => this.view.zoom(1 / 1.5) }, "−"),
              el("button", { "aria-label": "Zoom in", onclick: () => this.view.zoom(1.5) }, "+"),
              el("button", { onclick: () => this.view.reset() }, "Fit"),
            ),
          ),
          this.caption,
          this.empty,
          this.stage,
          this.legend,
          this.table,
        ),
        el(
          "div.two",
          {},
          card(
            "Advantage by depth",
            el(
              "div",
              {},
              this.depths.element,
              el(
                "p.foot.quiet.small",
                {},
                "Rows are depths of the tree, columns training steps. Each cell is the largest advantage at that depth: how hard the best branch is pushed.",
              ),
            ),
          ),
          card(
            "Spread by depth",
            el(
              "div",
              {},
              this.spread.element,
              el(
                "p.foot.quiet.small",
                {},
                "Standard deviation of the fused value at each depth, before it is normalised: where in denoising the reward is decided.",
              ),
            ),
          ),
        ),
      ),
    );
    this.pick(null, false);
  }

  steps() {
    return [
      ...new Set(
        this.trees.filter((key) => this.prompt === null || key.prompt_index === this.prompt).map((key) => key.step),
      ),
    ].toSorted((a, b) => a - b);
  }

  /** Brings the controls in line with what exists and what is wanted, then loads that tree. */
  refresh() {
    const has = this.trees.length > 0;
    this.empty.hidden = has;
    this.stage.hidden = !has;
    this.prompts.parentElement.hidden = !has;
    if (!has) return;
    if (this.prompt === null) this.prompt = this.trees.at(-1).prompt_index;
    const texts = Map.groupBy(this.trees, (key) => key.prompt_index);
    this.prompts.parentElement.hidden = texts.size < 2;
    fill(
      this.prompts,
      [...texts]
        .toSorted((a, b) => a[0] - b[0])
        .map(([index, keys]) => {
          const same = keys.every((key) => key.prompt === keys[0].prompt);
          return el(
            "option",
            { value: index, selected: index === this.prompt },
            same ? keys[0].prompt.slice(0, 70) : `prompt ${index + 1} of each step`,
          );
        }),
    );
    const steps = this.steps();
    if (this.following || !steps.includes(this.step)) this.step = steps.at(-1);
    this.slider.max = steps.length - 1;
    this.slider.value = steps.indexOf(this.step);
    this.where.textContent = String(this.step);
    this.live.setAttribute("aria-pressed", String(this.following));
    remember({ prompt: this.prompt, step: this.following ? null : this.step });
    return this.load();
  }

  async fetch() {
    const tree = await get(`runs/${this.run}/trees/${this.step}/${this.prompt}`);
    this.view.show(tree);
    fill(this.caption, el("q", {}, tree.prompt), el("span.quiet", {}, summary(tree)));
    fill(this.legend, legend(this.view));
    this.pick(this.view.chosen, false);
    this.tabulate();
  }

  async fetchDepths() {
    const rows = await get(`runs/${this.run}/depths`);
    this.depths.draw(() => depthMap(rows));
    this.spread.draw(() => depthSpread(rows));
  }

  pick(node, remembered = true) {
    fill(this.panel, nodePanel(this.view, node));
    if (remembered) remember({ node: node ? `${node.level}.${node.index}` : null });
    else if (!node && this.view.levels.length && asked("node")) {
      const [level, index] = asked("node").split(".").map(Number);
      const wanted = this.view.levels[level]?.[index];
      if (wanted) this.view.select(wanted);
    }
  }

  tabulate() {
    if (this.table.open && this.view.tree) fill(this.table.lastElementChild, nodeTable(this.view));
  }

  toggleFold() {
    this.view.fold(!this.view.folded);
    this.unfold.setAttribute("aria-pressed", String(!this.view.folded));
    this.tabulate();
  }

  seek(position) {
    this.following = false;
    this.step = this.steps()[position];
    return this.refresh();
  }

  choosePrompt(prompt) {
    this.prompt = prompt;
    this.refresh();
  }

  follow() {
    this.pause();
    this.following = !this.following;
    this.prompt = this.following ? (this.trees.at(-1)?.prompt_index ?? null) : this.prompt;
    this.refresh();
  }

  async start() {
    this.playing = true;
    this.play.textContent = "Pause";
    const last = this.steps().length - 1;
    if (Number(this.slider.value) >= last) await this.seek(0);
    while (this.playing && Number(this.slider.value) < last && this.element.isConnected) {
      await new Promise((ready) => setTimeout(ready, 700));
      if (this.playing) await this.seek(Number(this.slider.value) + 1);
    }
    this.pause();
  }

  pause() {
    this.playing = false;
    this.play.textContent = "Play";
  }

  async reload() {
    this.trees = await get(`runs/${this.run}/trees`);
    this.refresh();
    this.loadDepths();
  }

  async grew(change) {
    const key = this.trees.find((k) => k.step === change.step && k.prompt_index === change.prompt_index);
    if (!key || change.complete) await this.reload();
    else if (this.step === change.step && this.prompt === change.prompt_index) this.load();
  }
}

function summary(tree) {
  const steps = tree.sigmas.length - 1;
  const widths = tree.parents.map((level) => level.length);
  if (tree.level < steps) return `sampling: step ${tree.level} of ${steps}`;
  const pruned = tree.keep.flatMap((level, i) =>
    level.filter((kept, index) => !kept && tree.rates[i] > 0 && tree.logps[i]?.[index] !== null),
  ).length;
  const edges = widths.reduce((sum, width) => sum + width, 0);
  return `${widths.at(-1)} leaves, ${edges} edges` + (pruned ? `, ${pruned} pruned` : "");
}
