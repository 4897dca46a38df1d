// What can be done with the votes: files in the forms that others read, and training on them.
import { page, post } from "./api.js";
import { card, el } from "./dom.js";
import { FitReward } from "./fitreward.js";
import { explain, field, select, text } from "./newset.js";

export const FORMATS = [
  ["native", "All that is known", "JSON; can be imported again"],
  ["pickapic", "Pick-a-Pic", "its columns"],
  ["hpd", "HPD", "ranked images, JSON"],
  ["videoalign", "VideoAlign", "CSV"],
  ["chosen_rejected", "Chosen and rejected", "JSON lines"],
  ["parquet", "Parquet", "one row a vote"],
];
const METHODS = [
  ["dpo", "Diffusion-DPO"],
  ["dgpo", "DGPO, offline"],
];

export class VotesOut {
  constructor(id) {
    this.id = id;
    this.reward = new FitReward(id);
    this.element = card(
      "Use the votes",
      el(
        "div.body.stack",
        {},
        el(
          "div.row",
          { role: "group", "aria-label": "Export" },
          el("span.quiet", {}, "Export"),
          FORMATS.map(([format, label, note]) =>
            el(
              "a.button",
              { href: page(`api/v1/review-sets/${id}/export`, { format }), download: "", title: note },
              label,
            ),
          ),
        ),
        this.form(),
        this.reward.element,
      ),
    );
    this.element.hidden = true;
  }

  /** Nothing can be exported or learned without votes. */
  show(standing) {
    this.element.hidden = standing.votes === 0;
    if (standing.votes) this.reward.load();
  }

  form() {
    const method = select(METHODS, "dpo");
    const steps = text("Training steps", "");
    const name = text("Name of the run", "from votes");
    const problem = el("p.note.bad", { role: "alert", hidden: true });
    const start = el("button.primary", { type: "submit" }, "Train on these votes");
    const submit = async (event) => {
      event.preventDefault();
      start.disabled = true;
      try {
        const asked = steps.value.trim();
        const body = { method: method.value, steps: asked ? Number(asked) : null, name: name.value.trim() };
        const made = await post(`review-sets/${this.id}/train`, body);
        location.assign(page("run", { id: made.id }));
      } catch (refused) {
        problem.hidden = false;
        problem.textContent = explain(refused);
        start.disabled = false;
      }
    };
    return el(
      "form.row.add-reviewer",
      { onsubmit: submit },
      field("Method", method),
      field("Training steps", steps, "empty: 2.5 passes over the pairs"),
      field("Name of the run", name),
      start,
      problem,
    );
  }
}
