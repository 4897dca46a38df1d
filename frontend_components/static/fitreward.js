// A reward fitted to the votes of a set: the button, how far the fit is, and what came of it.
import { get, page, post } from "./api.js";
import { el, fill, headRow } from "./dom.js";
import { clock, count, percent } from "./format.js";
import { explain } from "./newset.js";

const POLL = 1000; // ms, while a fit is under way

export class FitReward {
  constructor(id) {
    this.path = `review-sets/${id}/reward`;
    this.start = el("button", { type: "button", onclick: () => this.fit() }, "Fit a reward to these votes");
    this.told = el("span.quiet.small", { role: "status" });
    this.problem = el("p.note.bad", { role: "alert", hidden: true });
    this.fitted = el("div");
    this.element = el(
      "div.stack",
      { role: "group", "aria-label": "Learned reward" },
      el(
        "div.row",
        {},
        this.start,
        this.told,
      ),
      this.problem,
      this.fitted,
    );
  }

  /** Shows what there is; follows a fit that was started here, in another tab, or before a reload. */
  async load() {
    const { fitting, fitted } = await get(this.path);
    fill(this.fitted, fitted.length ? table(fitted) : null);
    this.start.disabled = Boolean(fitting || this.asked);
    this.told.textContent = fitting ? words(fitting) : "";
    clearTimeout(this.again);
    if (fitting || this.asked) this.again = setTimeout(() => this.element.isConnected && this.load(), POLL);
  }

  async fit() {
    this.problem.hidden = true;
    this.asked = true;
    const answer = post(this.path, {});
    this.load();
    try {
      await answer;
    } catch (refused) {
      this.problem.hidden = false;
      this.problem.textContent = explain(refused);
    }
    this.asked = false;
    await this.load();
  }
}

function words({ done, total }) {
  return total ? `${count(done)} of ${count(total)} pictures` : "starting";
}

function table(fitted) {
  const heads = ["Fitted", "Chose as people did", "Pairs", "Votes", "Base", "File"];
  return el(
    "table.standing",
    { "aria-label": "Fitted rewards" },
    headRow(heads),
    el(
      "tbody",
      {},
      fitted.map((one) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, clock(one.fitted_at)),
          el(
            "td",
            {},
            el("b", {}, percent(one.accuracy)),
            el("span.interval", {}, `${percent(one.low)} to ${percent(one.high)}`),
          ),
          el("td", {}, count(one.pairs)),
          el("td", {}, count(one.votes)),
          el("td", {}, one.base),
          el("td", {}, el("code.small", {}, one.file)),
        ),
      ),
    ),
    el(
      "caption.quiet",
      {},
      "On pairs of prompts that were held out from the fit; half would be chance. A run takes it as the reward ",
      el("b", {}, "learned"),
      " with this file, on the ",
      el("a", { href: page("") }, "Launch page"),
      ".",
    ),
  );
}
