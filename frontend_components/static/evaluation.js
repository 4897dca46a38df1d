// Held-out evaluation as a table: base against the newest weights, with intervals and gains.
import { el } from "./dom.js";
import { number, percent, signed } from "./format.js";

/** evaluations: [{step, report}] by step. against: the step to set beside the base (the last one when null). */
export function evaluationTable(evaluations, against = null) {
  if (!evaluations.length)
    return el(
      "p.quiet.nothing",
      {},
      "The base model is evaluated first; its numbers appear here, and again after training.",
    );
  const base = evaluations[0];
  const tuned = evaluations.findLast((e) => against === null || e.step === against) ?? base;
  const rows = rowsOf(base.report, tuned.report, base.reward_labels ?? {});
  const only = base.step === tuned.step;
  return el(
    "table.evaluation",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, ""),
        [base.step === 0 ? "base" : "step " + base.step, only ? null : "step " + tuned.step, only ? null : "gain"]
          .filter(Boolean)
          .map((name) => el("th.num", { scope: "col" }, name)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el(
          "tr",
          { class: row.lead ? "lead-row" : null },
          el("th", { scope: "row" }, row.name, row.note ? el("span.quiet", {}, " " + row.note) : null),
          el("td.num", {}, row.text(row.base)),
          only ? null : el("td.num", {}, row.text(row.tuned)),
          only ? null : gain(row),
        ),
      ),
    ),
    el("caption.quiet", {}, `${base.report.num_prompts} held-out prompts, intervals of 95 %`),
  );
}

/** labels: what rewards that were fitted to votes were fitted to, by their name. */
function rowsOf(base, tuned, labels) {
  const interval = (low, high) => el("span.interval", {}, `${low} to ${high}`);
  const share = (v) => (v ? [percent(v.mean), interval(number(100 * v.low, 1), number(100 * v.high, 1))] : "–");
  const score = (v) =>
    v ? [number(v.mean), interval(number(v.low), number(v.high)), v.failed ? unjudged(v.failed) : null] : "–";
  const rows = [];
  if (base.strict_accuracy) {
    rows.push({
      name: "Strict accuracy",
      lead: true,
      base: base.strict_accuracy.overall,
      tuned: tuned.strict_accuracy?.overall,
      text: share,
      points: true,
    });
    for (const [task, value] of Object.entries(base.strict_accuracy.tasks ?? {}))
      rows.push({
        name: task,
        note: `${value.count}`,
        base: value,
        tuned: tuned.strict_accuracy?.tasks?.[task],
        text: share,
        points: true,
      });
  }
  if (base.quality)
    rows.push({ name: "Quality", note: "held out", base: base.quality, tuned: tuned.quality, text: score });
  for (const [name, value] of Object.entries(base.rewards ?? {})) {
    rows.push({
      name,
      lead: !base.strict_accuracy && !rows.length,
      note: [(base.held_out ?? []).includes(name) ? "held-out reward" : "reward", labels[name]].filter(Boolean).join(", "),
      base: value,
      tuned: tuned.rewards?.[name],
      text: score,
    });
    for (const [task, one] of Object.entries(base.tasks ?? {}))
      rows.push({
        name: task,
        note: `${one.count}`,
        base: one.rewards[name],
        tuned: tuned.tasks?.[task]?.rewards[name],
        text: score,
      });
  }
  return rows;
}

const unjudged = (count) => el("span.quiet", { title: "left out of the mean" }, ` ${count} not judged`);

function gain({ base, tuned, points }) {
  if (typeof base?.mean !== "number" || typeof tuned?.mean !== "number") return el("td.num", {}, "–");
  const by = tuned.mean - base.mean;
  const apart = tuned.low > base.high || tuned.high < base.low;
  return el(
    "td.num",
    {
      class: "num " + (apart ? (by > 0 ? "up" : "down") : "level"),
      title: apart ? "the intervals do not overlap" : "the intervals overlap",
    },
    points ? signed(100 * by, 1) + " pt" : signed(by),
  );
}
