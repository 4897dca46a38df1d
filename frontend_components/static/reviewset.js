// One review set: its models, its reviewers and their links, open and close.
import { get, page, post } from "./api.js";
import { card, el, fill } from "./dom.js";
import { count } from "./format.js";
import { field, text } from "./newset.js";

export class ReviewSet {
  constructor(id, onchange) {
    Object.assign(this, { id, onchange });
    this.facts = el("div.stack");
    this.reviewers = el("div.scroll");
    this.name = text("Pseudonym");
    this.name.placeholder = "such as reviewer 3";
    this.quota = text("Pairs");
    this.quota.placeholder = "as the set says";
    this.problem = el("p.note.bad", { role: "alert", hidden: true });
    this.toggle = el("button");
    this.title = el("h2");
    const add = el(
      "form.row.add-reviewer",
      { onsubmit: (event) => this.add(event) },
      field("Pseudonym", this.name),
      field("Pairs", this.quota),
      el("button.primary", { type: "submit" }, "Add a reviewer"),
    );
    this.element = card("Review set", el("div.body.stack", {}, this.facts, this.problem, this.reviewers, add));
    this.element.dataset.set = id;
    this.element
      .querySelector("header")
      .replaceChildren(
        this.title,
        el("span.push.row", {}, el("a.button", { href: page("leaderboard", { set: id }) }, "Leaderboard"), this.toggle),
      );
  }

  async load() {
    const set = await get("review-sets/" + this.id);
    this.title.textContent = set.name;
    this.toggle.textContent = set.closed_at ? "Open again" : "Close";
    this.toggle.title = set.closed_at ? "Reviewers can go on" : "No further votes are taken";
    this.toggle.onclick = () => this.act(set.closed_at ? "open" : "close");
    fill(this.facts, facts(set));
    // What is typed or selected in the table's links would be lost by drawing it again without need.
    const seen = JSON.stringify(set.reviewers);
    if (seen !== this.seen) fill(this.reviewers, this.table(set));
    this.seen = seen;
  }

  table({ reviewers, progress }) {
    if (!reviewers.length)
      return el("p.quiet", {}, "No reviewer yet. Each one gets a link of their own; it needs no account.");
    return el(
      "table.standing",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["Reviewer", "Judged", "Link"].map((name) => el("th", { scope: "col" }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        reviewers.map((reviewer) => reviewerLine(reviewer, progress.pairs)),
      ),
    );
  }

  add(event) {
    event.preventDefault();
    return this.tell(async () => {
      const quota = this.quota.value.trim();
      if (quota && !/^[1-9]\d*$/.test(quota)) throw new Error(`Pairs: ${quota} is not a whole number above 0`);
      const pseudonym = this.name.value.trim();
      if (!pseudonym) throw new Error("Pseudonym: give one; it stands beside the votes in exports");
      await post(`review-sets/${this.id}/reviewers`, { pseudonym, quota: quota ? Number(quota) : null });
      this.name.value = "";
    });
  }

  act(what) {
    return this.tell(() => post(`review-sets/${this.id}/${what}`));
  }

  async tell(job) {
    try {
      await job();
      this.problem.hidden = true;
    } catch (refused) {
      this.problem.hidden = false;
      this.problem.textContent = refused.message;
    }
    await this.onchange();
  }
}

function facts(set) {
  const { settings, progress } = set;
  const aspects = (settings.aspects ?? []).filter((one) => one !== "overall");
  return el(
    "div.row.quiet.small.dotted",
    {},
    [
      compared(set),
      count(progress.pairs) + " pairs",
      count(progress.votes) + " votes",
      "asks overall" + aspects.map((one) => ", " + one).join(""),
      settings.active ? "pairs that tell most first" : null,
    ]
      .filter(Boolean)
      .map((part) => el("span", {}, part)),
  );
}

function compared({ models, settings }) {
  const labels = models.map((model) => model.label).join(" against ");
  return settings.source?.kind === "seeds" ? `${labels}, two noises` : labels;
}

function reviewerLine(reviewer, pairs) {
  const link = el("input", { type: "text", readonly: true, "aria-label": "Link of " + reviewer.pseudonym });
  const url = new URL(reviewer.url, page("")).href;
  link.value = url;
  const copy = el("button", { type: "button" }, "Copy link");
  copy.onclick = async () => {
    // The clipboard interface is missing on plain http; selecting the text and the old command work there.
    if (navigator.clipboard) await navigator.clipboard.writeText(url);
    else {
      link.select();
      document.execCommand("copy");
    }
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy link"), 1500);
  };
  const total = Math.min(reviewer.quota ?? pairs, pairs);
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, reviewer.pseudonym),
    el(
      "td.progress",
      {},
      el("span.small", {}, `${reviewer.done} of ${total}`),
      el("div.bar", {}, el("i", { style: { width: (100 * reviewer.done) / (total || 1) + "%" } })),
    ),
    el(
      "td",
      {},
      el("div.row.tight.copy-link", {}, link, copy, el("a.button", { href: url, target: "_blank" }, "Open")),
    ),
  );
}
