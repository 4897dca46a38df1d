// The curves of a run. The reward leads; the loss comes last, with a word on why it says little.
import { get, page } from "./api.js";
import { Chart } from "./charts.js";
import { card, el, oneAtATime } from "./dom.js";
import { failedFigure, linesFigure, ratioFigure, rewardFigure, timeFigure } from "./figures.js";

const SMALL = 190;
const KLS = [
  ["train/approx_kl", "to the weights that sampled"],
  ["train/kl_old", "their predictions"],
  ["train/kl_ref", "to the base"],
];
const ERRORS = [
  ["train/error", "all samples"],
  ["train/error_positive", "towards good ones"],
  ["train/error_negative", "away from bad ones"],
];
const MEMORY = [
  ["memory/peak", "measured"],
  ["memory/estimate", "estimated before"],
];
// A method that has none of a chart's metrics does not show the chart.
const SMALL_CHARTS = [
  [
    "Group spread",
    "std of rewards in a group",
    (c, w) => linesFigure(c, [["train/reward_std", "std"]], w, { yaxis: { rangemode: "tozero" } }),
  ],
  [
    "Zero-signal groups",
    "share of groups whose rewards are all equal",
    (c, w) =>
      linesFigure(c, [["train/zero_std_ratio", "share"]], w, { yaxis: { rangemode: "tozero", tickformat: ".0%" } }),
  ],
  ["Not judged", "samples that a reward could not judge, by reward", (c, w) => failedFigure(c, w)],
  ["Ratio and clipping", "current weights to earlier ones; 1 while they are the same", (c, w) => ratioFigure(c, w)],
  ["KL", "how far the weights have moved", (c, w) => linesFigure(c, KLS, w, { yaxis: { rangemode: "tozero", tickformat: ".1e" } })],
  ["Denoising error", "of the current weights", (c, w) => linesFigure(c, ERRORS, w, { yaxis: { rangemode: "tozero" } })],
  [
    "Pairs told apart",
    "share of pairs whose better sample is preferred",
    (c, w) => linesFigure(c, [["train/pair_accuracy", "share"]], w, { yaxis: { range: [0, 1], tickformat: ".0%" } }),
  ],
  [
    "Value baseline",
    "squared error of the predicted reward",
    (c, w) => linesFigure(c, [["train/value_loss", "error"]], w, { yaxis: { rangemode: "tozero" } }),
  ],
  [
    "Preference weight",
    "1: the worse samples are still preferred, one half: undecided",
    (c, w) => linesFigure(c, [["train/preference_weight", "weight"]], w, { yaxis: { range: [0, 1] } }),
  ],
  [
    "Gradient norm",
    "before clipping",
    (c, w) => linesFigure(c, [["train/grad_norm", "norm"]], w, { yaxis: { rangemode: "tozero" } }),
  ],
  ["Time per step", "by phase", (c) => timeFigure(c)],
  [
    "Peak memory",
    "GB of the first process; on a CPU with all that Python holds",
    (c) => linesFigure(c, MEMORY, 0, { yaxis: { rangemode: "tozero" } }),
  ],
];

export class Curves {
  constructor(run) {
    this.run = run;
    this.data = { steps: [], times: [], values: {} };
    this.weight = 0.6;
    this.load = oneAtATime(() => this.fetch());
    const amount = el("input", {
      type: "range",
      min: 0,
      max: 0.95,
      step: 0.05,
      value: this.weight,
      "aria-label": "Smoothing of curves",
      style: { width: "90px" },
    });
    amount.addEventListener("input", () => {
      this.weight = Number(amount.value);
      this.draw();
    });
    this.main = new Chart(372, "Reward by training step");
    this.lossChart = new Chart(SMALL, "Loss by training step");
    this.small = SMALL_CHARTS.map(([title]) => new Chart(SMALL, title + " by training step"));
    this.reward = card(
      "Reward",
      this.main.element,
      el(
        "span.push.row",
        {},
        el("label", {}, "Smoothing", amount),
        el("a", { href: page(`api/v1/runs/${run}/curves.csv`), download: "" }, "CSV"),
      ),
    );
    this.loss = card(
      "Loss",
      el(
        "div",
        {},
        this.lossChart.element,
        el(
          "p.foot.quiet.small",
          {},
          "It sits near zero while sampling is on-policy: advantages average to zero and the ratio starts at one. Judge by reward and held-out accuracy.",
        ),
      ),
    );
    this.cards = SMALL_CHARTS.map(([title, note], i) =>
      card(title, this.small[i].element, el("span.quiet.small", {}, note)),
    );
    this.grid = el("div.three", {}, this.cards);
  }

  async fetch() {
    this.data = await get(`runs/${this.run}/curves`);
    this.draw();
  }

  /** One more step, straight from the stream; anything but the next one is fetched. */
  add({ step, metrics }) {
    const last = this.data.steps.at(-1) ?? -1;
    if (step !== last + 1) return this.load();
    // new arrays each time: Plotly takes one that it has seen before for unchanged
    const { steps, times, values } = this.data;
    const names = new Set([...Object.keys(values), ...Object.keys(metrics)]);
    this.data = {
      steps: [...steps, step],
      times,
      values: Object.fromEntries(
        [...names].map((name) => [name, [...(values[name] ?? steps.map(() => null)), metrics[name] ?? null]]),
      ),
    };
    this.draw();
  }

  draw() {
    this.main.draw(() => rewardFigure(this.data, this.weight));
    this.small.forEach((chart, i) => {
      const figure = SMALL_CHARTS[i][2];
      const absent = this.data.steps.length > 0 && figure(this.data, this.weight).data.length === 0;
      this.cards[i].style.display = absent ? "none" : "";
      if (!absent) chart.draw(() => figure(this.data, this.weight));
    });
    this.lossChart.draw(() =>
      linesFigure(this.data, [["train/loss", "loss"]], this.weight, { yaxis: { tickformat: ".1e" } }),
    );
  }
}
