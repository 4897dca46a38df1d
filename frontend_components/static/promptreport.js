// What a file of prompts holds: counts, rows that are no prompts, duplicates, texts that the evaluation has, too.
import { el } from "./dom.js";
import { count } from "./format.js";

export function promptReport(report) {
  const { unit } = report;
  const numbered = (one) => [one.lines.join(", "), one.text];
  return [
    el(
      "p",
      {},
      el("b", {}, `${count(report.num_prompts)} prompts`),
      `, ${count(report.num_distinct)} different`,
      report.num_blank ? `, ${count(report.num_blank)} blank ${unit}s skipped` : null,
    ),
    tally("Tasks", report.tasks),
    tally("Metadata for rewards", report.metadata),
    report.num_negative
      ? el("p.quiet", {}, `Negative prompts, for classifier-free guidance: ${count(report.num_negative)}`)
      : null,
    report.num_image ? el("p.quiet", {}, `Images, not used by the models here: ${count(report.num_image)}`) : null,
    report.num_first_frame
      ? el("p.quiet", {}, `First frames, for image-to-video bases: ${count(report.num_first_frame)}`)
      : null,
    report.left_out.length ? el("p.quiet", {}, `Not read, as they hold binary data: ${report.left_out.join(", ")}`) : null,
    listed(
      `${count(report.num_bad)} ${unit}s are no prompts`,
      report.num_bad,
      report.bad.map((one) => [one.line, one.reason]),
      "bad",
    ),
    listed(`${count(report.num_repeated)} texts occur more than once`, report.num_repeated, report.repeated.map(numbered)),
    report.overlap
      ? listed(
          `${count(report.overlap.num)} texts are also in ${report.overlap.against}, which evaluates the run`,
          report.overlap.num,
          report.overlap.prompts.map(numbered),
        )
      : null,
  ];
}

function tally(name, numbers) {
  const told = Object.entries(numbers).map(([key, number]) => `${key} ${count(number)}`);
  return told.length ? el("p.quiet", {}, `${name}: ${told.join(", ")}`) : null;
}

function listed(title, number, rows, tint = "") {
  if (!number) return null;
  return el(
    "details",
    { open: tint === "bad" },
    el("summary", { class: tint ? `note ${tint}` : null }, title),
    el(
      "ul",
      {},
      rows.map(([line, text]) => el("li", {}, el("span.num.quiet", {}, String(line)), el("span", {}, text))),
      number > rows.length
        ? el("li", {}, el("span"), el("span.quiet", {}, `and ${number - rows.length} more: espalier prompts check`))
        : null,
    ),
  );
}
