// The watched prompts at fixed seeds: one slider moves all of them through training.
import { get } from "./api.js";
import { card, el, fill, oneAtATime } from "./dom.js";
import { number } from "./format.js";
import { sampleElement } from "./sample.js";

export class Samples {
  constructor(run) {
    this.run = run;
    this.steps = [];
    this.following = true;
    this.load = oneAtATime(() => this.fetch());
    this.showStep = oneAtATime(() => this.fetchStep());
    this.slider = el("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Training step of the samples" });
    this.slider.addEventListener("input", () => {
      this.following = Number(this.slider.value) === this.steps.length - 1;
      this.showStep();
    });
    this.where = el("b.num.where");
    this.strip = el("div.samples");
    this.element = card(
      "Samples at fixed seeds",
      this.strip,
      el("label.grow.push", {}, "Training step", this.slider),
      this.where,
    );
    fill(this.strip, el("p.quiet", {}, "Saved at the start, at every evaluation, and at the end."));
  }

  async fetch() {
    this.steps = await get(`runs/${this.run}/samples/fixed`);
    if (!this.steps.length) return;
    this.slider.max = this.steps.length - 1;
    if (this.following) this.slider.value = this.steps.length - 1;
    await this.fetchStep();
  }

  async fetchStep() {
    const step = this.steps[Number(this.slider.value)];
    this.where.textContent = step === 0 ? "0 (base)" : String(step);
    const rows = await get(`runs/${this.run}/samples/fixed/${step}`);
    fill(
      this.strip,
      rows.map((row) =>
        el(
          "figure",
          {},
          sampleElement(
            row,
            { alt: `${row.prompt}, seed ${row.seed}, step ${step}`, width: 150, height: 150 },
            true,
          ),
          el(
            "figcaption",
            {},
            el("div", { title: row.prompt }, row.prompt),
            el(
              "div.quiet",
              {},
              Object.entries(row.scores)
                .map(([name, value]) => `${name} ${number(value, 2)}`)
                .join(" · "),
            ),
          ),
        ),
      ),
    );
  }
}
