// What the keys of the desk do, and what is asked of a reviewer.
import { el } from "./dom.js";

const KEYS = [
  ["←  →", "the left one, the right one is better"],
  ["↓", "tie: both are equally good"],
  ["B", "both are bad"],
  ["S", "skip this pair"],
  ["U", "take the last answer back"],
  ["Z", "zoom both; move the pointer, or Shift with arrows"],
  ["Space", "play or stop videos"],
  ["?", "this sheet"],
];

export function helpSheet() {
  const sheet = el("dialog.desk-help", {
    "aria-label": "Help",
    onclick: (event) => event.target === sheet && sheet.close(),
  });
  sheet.append(
    el("h2", {}, "Which one do you prefer?"),
    el(
      "p",
      {},
      "Both were made from the same prompt and the same noise, by two models. Which side a model is on changes at random. Judge what you see; there is no hurry.",
    ),
    el(
      "table",
      {},
      el(
        "tbody",
        {},
        KEYS.map(([key, what]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, key)), el("td", {}, what))),
      ),
    ),
    el("p.quiet.small", {}, "You may close this page at any time and come back by the same link."),
    el("form", { method: "dialog" }, el("button.primary", { autofocus: true }, "Close")),
  );
  return sheet;
}
