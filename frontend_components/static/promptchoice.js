// Which prompts a review set is about: all, those of a file, or those where a model fails.
import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { field, select, text, whole } from "./newset.js";

const OF_MODELS = [
  ["all", "All prompts that both have"],
  ["broken", "Broken: strict score fell"],
  ["fixed", "Fixed: strict score rose"],
  ["failed", "Failed by the second model"],
  ["lowest", "Lowest scores of the second model"],
  ["file", "Those of a text file"],
];
const OF_SEEDS = [
  ["all", "All prompts with two samples"],
  ["failed", "Those with a failed sample"],
  ["lowest", "Those with the lowest scores"],
  ["file", "Those of a text file"],
];

export class PromptChoice {
  /** models: the Models that are compared; only: what is chosen at first. */
  constructor(models, only) {
    this.models = models;
    this.which = select(OF_MODELS, only ?? "all");
    this.which.addEventListener("change", () => this.show());
    this.file = el("input", { type: "file", accept: ".txt,text/plain", "aria-label": "File of prompts, one a line" });
    this.reward = el("select", { "aria-label": "Score" });
    this.count = text("Number of samples", "50");
    this.parts = {
      file: [field("File of prompts, one a line", this.file)],
      lowest: [field("Score", this.reward), field("Number of samples", this.count)],
    };
    this.help = el("span.help");
    this.element = el(
      "div.fields.four",
      {},
      el("div.field", {}, el("label", {}, "Prompts"), this.which, this.help),
      this.parts.file,
      this.parts.lowest,
    );
    this.which.setAttribute("aria-label", "Prompts");
    this.offer();
  }

  /** The choices follow what is compared. */
  offer() {
    const { seeds } = this.models;
    const options = seeds ? OF_SEEDS : OF_MODELS;
    const kept = options.some(([value]) => value === this.which.value) ? this.which.value : "all";
    fill(
      this.which,
      options.map(([value, label]) => el("option", { value, selected: value === kept }, label)),
    );
    this.help.textContent = seeds
      ? "The same prompt and model, other noise on each side."
      : "The same prompt and noise seed on both sides.";
    this.show();
  }

  show() {
    for (const [which, fields] of Object.entries(this.parts))
      for (const one of fields) one.hidden = this.which.value !== which;
    if (this.which.value === "lowest") this.offerScores();
  }

  async offerScores() {
    const { run, step } = this.models.judged;
    const rows = step.value === "" ? [] : await get(`runs/${run.value}/samples/test/${step.value}`);
    const names = Object.keys(rows[0]?.scores ?? {});
    const kept = this.reward.value;
    fill(
      this.reward,
      names.map((name) => el("option", { value: name, selected: name === kept }, name)),
    );
  }

  /** [only, prompts] of the source: null where there is none. */
  async read() {
    const which = this.which.value;
    if (which === "file") return [null, await promptsOf(this.file)];
    if (which === "lowest") {
      if (!this.reward.value) throw new Error("Score: these samples have none");
      return [{ reward: this.reward.value, count: whole("Number of samples", this.count.value, 50) }, null];
    }
    return [which === "all" ? null : which, null];
  }
}

async function promptsOf(file) {
  if (!file.files.length) throw new Error("File of prompts: choose a text file with one prompt a line");
  const lines = (await file.files[0].text()).replace(/^\uFEFF/, "").split(/\r?\n/);
  return lines.map((line) => line.trim()).filter(Boolean);
}
