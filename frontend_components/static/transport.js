// The bar that drives a clock: play, frame by frame, any frame, and speed. And the keys of it.
import { Clock, SPEEDS } from "./clock.js";
import { el } from "./dom.js";

export const KEYS = "k plays and stops, , and . step a frame, + and - zoom, 0 shows all, Shift and arrows move.";

export class Transport {
  constructor() {
    this.clock = new Clock(() => this.draw());
    const button = (label, name, key, act) =>
      el("button", { "aria-label": name, title: `${name} (${key})`, onclick: act }, label);
    this.play = button("", "Play", "k", () => this.clock.toggle());
    this.scrub = el("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "Frame" });
    this.scrub.addEventListener("input", () => {
      this.clock.playing = false;
      this.clock.seek(Number(this.scrub.value));
    });
    this.where = el("span.num.small.transport-frame");
    this.speed = el(
      "select",
      { "aria-label": "Speed", onchange: () => this.clock.speed(Number(this.speed.value)) },
      SPEEDS.map((one) => el("option", { value: one, selected: one === 1 }, one + "×")),
    );
    this.element = el(
      "div.row.tight.transport",
      { role: "group", "aria-label": "All videos on one clock", hidden: true },
      this.play,
      button("‹", "One frame back", ",", () => this.clock.step(-1)),
      button("›", "One frame forward", ".", () => this.clock.step(1)),
      this.scrub,
      this.where,
      this.speed,
    );
    this.draw();
  }

  /** Drives the videos below a node; the bar is there when there are any. */
  show(node) {
    const videos = [...node.querySelectorAll("video")];
    this.element.hidden = !videos.length;
    this.clock.show(videos);
  }

  draw() {
    const { playing, frame, frames } = this.clock;
    const name = playing ? "Pause" : "Play";
    if (this.play.ariaLabel !== name || !this.play.textContent) {
      Object.assign(this.play, { ariaLabel: name, title: name + " (k)", textContent: playing ? "❚❚" : "▶" });
    }
    this.scrub.max = Math.max(0, frames - 1);
    this.scrub.value = frame;
    this.scrub.disabled = !frames;
    this.where.textContent = frames ? `frame ${frame + 1} of ${frames}` : "";
  }

  /** Whether the key was one of the clock. */
  key(event) {
    if (this.element.hidden) return false;
    const act = { k: () => this.clock.toggle(), ",": () => this.clock.step(-1), ".": () => this.clock.step(1) }[event.key];
    act?.();
    return Boolean(act);
  }
}

/** Gives a key to the first of these that takes it, unless it is typed into a field or belongs to the browser. */
export function pressed(event, ...takers) {
  const typing = event.target.closest("input:not([type=range]), textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (takers.some((one) => one.key(event))) event.preventDefault();
}
