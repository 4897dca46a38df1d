// The choices of a pair: one row for each aspect that is asked, the overall one last.
import { el, fill } from "./dom.js";

const CHOICES = [
  ["left", "Left", "←"],
  ["tie", "Tie", "↓"],
  ["both_bad", "Both bad", "B"],
  ["right", "Right", "→"],
];
const BETTER = { left: "Left is better", right: "Right is better" };
const WORDS = { overall: "Overall", alignment: "Fits the prompt", quality: "Quality", motion: "Motion" };

export class Verdict {
  /** onpick(choice, aspect) is called by buttons; a second click of a double click calls nothing. */
  constructor(onpick) {
    this.onpick = onpick;
    this.element = el("div.desk-verdict");
    this.clear();
  }

  /** aspects: those beyond the overall one. */
  ask(aspects) {
    this.aspects = [...aspects.filter((aspect) => aspect !== "overall"), "overall"];
    this.answers = {};
    this.draw();
  }

  clear() {
    Object.assign(this, { aspects: [], answers: {} });
    fill(this.element);
  }

  /** The aspect that keys answer: the first one without an answer. */
  get open() {
    return this.aspects.find((aspect) => !this.answers[aspect]);
  }

  /** Notes an answer. True when nothing is open any more. */
  note(choice, aspect = this.open) {
    this.answers[aspect] = choice;
    this.draw();
    return !this.open;
  }

  /** Takes back the answer that was given last. False when there is none. */
  back() {
    const last = Object.keys(this.answers).at(-1);
    if (!last) return false;
    delete this.answers[last];
    this.draw();
    return true;
  }

  draw() {
    fill(
      this.element,
      this.aspects.map((aspect) => this.row(aspect)),
    );
  }

  row(aspect) {
    const several = this.aspects.length > 1;
    const now = aspect === this.open;
    const place = ["desk-row", several ? "several" : "", several && now ? "now" : ""].filter(Boolean).join(" ");
    return el(
      "div",
      { class: place, role: "group", "aria-label": WORDS[aspect] ?? aspect },
      several ? el("span.desk-aspect", {}, WORDS[aspect] ?? aspect) : null,
      CHOICES.map(([choice, label, key]) =>
        keyed((several ? null : BETTER[choice]) ?? label, now ? key : "", () => this.onpick(choice, aspect), {
          "data-choice": choice,
          "aria-pressed": this.answers[aspect] ? String(this.answers[aspect] === choice) : null,
        }),
      ),
    );
  }
}

/** A button that names its key. */
export function keyed(label, key, press, props = {}) {
  const onclick = (event) => event.detail < 2 && press();
  return el(
    "button",
    { onclick, type: "button", ...props },
    label,
    key ? el("kbd", { "aria-hidden": "true" }, key) : null,
  );
}
