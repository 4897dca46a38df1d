// The newest tree of a run, small, following the rollout as it samples.
import { get, page } from "./api.js";
import { card, el, fill, oneAtATime } from "./dom.js";
import { legend } from "./node.js";
import { TreeView } from "./tree.js";

export class LiveTree {
  constructor(run) {
    this.run = run;
    this.load = oneAtATime(() => this.fetch());
    this.caption = el("span.quiet.small");
    this.legend = el("div");
    this.open = el("a.push", { href: page("tree", { id: run }) }, "Open the tree");
    this.view = new TreeView({
      label: "Newest rollout tree",
      onselect: (node) =>
        node &&
        location.assign(
          page("tree", { id: run, step: this.step, prompt: this.prompt, node: `${node.level}.${node.index}` }),
        ),
    });
    this.empty = el("div.empty", {}, el("p", {}, "The tree grows here while the run samples."));
    this.stage = el("div.tree-small", { hidden: true }, this.view.element);
    this.element = card("Rollout tree", el("div", {}, this.empty, this.stage, this.legend), this.caption, this.open);
  }

  async fetch() {
    const newest = (await get(`runs/${this.run}/trees`)).at(-1);
    this.empty.hidden = Boolean(newest);
    this.stage.hidden = !newest;
    if (!newest) return;
    const tree = await get(`runs/${this.run}/trees/${newest.step}/${newest.prompt_index}`);
    Object.assign(this, { step: tree.step, prompt: tree.prompt_index });
    this.view.show(tree);
    const steps = tree.sigmas.length - 1;
    this.caption.textContent =
      `step ${tree.step}: “${tree.prompt}”` + (tree.level < steps ? `, sampling ${tree.level} of ${steps}` : "");
    fill(this.legend, legend(this.view));
  }
}
