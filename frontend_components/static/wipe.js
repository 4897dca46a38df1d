// Two images on top of each other with a border to move: the large view of a pair.
import { el, fill } from "./dom.js";
import { number, signed } from "./format.js";
import { mark } from "./outcome.js";
import { frame, sampleElement, still } from "./sample.js";
import { KEYS, pressed, Transport } from "./transport.js";
import { Zoom } from "./zoom.js";

export class Wipe {
  constructor() {
    this.body = el("div.wipe-body");
    this.transport = new Transport();
    this.zoom = new Zoom(this.body, true);
    this.element = el(
      "dialog.wipe",
      { "aria-label": "Large view", onclick: (event) => event.target === this.element && this.element.close() },
      this.body,
    );
    this.element.addEventListener("close", () => this.transport.clock.show([]));
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way || event.shiftKey) pressed(event, this.transport, this.zoom);
    else if (event.target.type !== "range") this.show(this.at + way);
  }

  open(pairs, at) {
    this.pairs = pairs;
    this.zoom.reset();
    this.element.showModal();
    this.show(at);
  }

  show(at) {
    this.at = (at + this.pairs.length) % this.pairs.length;
    const { before, after, from, to, words } = this.pairs[this.at];
    const under = frame(sampleElement(after, { alt: "after", loading: null }), after);
    const top = frame(sampleElement(before, { alt: "before", loading: null }), before);
    const edge = el("i.wipe-edge");
    const border = el("input", {
      type: "range",
      min: 0,
      max: 100,
      value: 50,
      "aria-label": "Border between the two images",
    });
    const move = () => {
      top.style.clipPath = `inset(0 ${100 - border.value}% 0 0)`;
      edge.style.left = border.value + "%";
    };
    border.addEventListener("input", move);
    move();
    const stack = el("div.wipe-stack", { style: { aspectRatio: under.style.aspectRatio } }, under, top, edge);
    stack.addEventListener("pointermove", (event) => {
      if (event.buttons) return; // a drag moves the enlarged part
      const box = stack.getBoundingClientRect();
      border.value = (100 * (event.clientX - box.left)) / box.width;
      move();
    });
    const name = (step) => (step === 0 ? "base" : "step " + step);
    const scores = Object.keys(after.scores);
    fill(
      this.body,
      el(
        "div.row",
        {},
        el("h2", {}, before.prompt),
        el(
          "div.row.right-side",
          {},
          el("button", { onclick: () => this.show(this.at - 1), "aria-label": "Previous pair" }, "←"),
          el("span.quiet.small.num", {}, `${this.at + 1} of ${this.pairs.length}`),
          el("button", { onclick: () => this.show(this.at + 1), "aria-label": "Next pair" }, "→"),
          el("button", { onclick: () => this.element.close() }, "Close"),
        ),
      ),
      el(
        "div.wipe-columns",
        {},
        el(
          "div",
          {},
          stack,
          border,
          el("div.row.view-bar", {}, this.transport.element, this.zoom.element),
          el(
            "div.row.small",
            {},
            el("span.row.tight", {}, name(from), mark(before.scores)),
            el("span.row.tight.right-side", {}, name(to), mark(after.scores)),
          ),
        ),
        el(
          "div.stack",
          {},
          el("p.quiet", {}, words),
          el(
            "table",
            {},
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                el("th", {}, ""),
                [name(from), name(to), "change"].map((head) => el("th.num", { scope: "col" }, head)),
              ),
            ),
            el(
              "tbody",
              {},
              scores.map((score) =>
                el(
                  "tr",
                  {},
                  el("th", { scope: "row" }, score),
                  el("td.num", {}, number(before.scores[score])),
                  el("td.num", {}, number(after.scores[score])),
                  el("td.num", {}, signed(change(before.scores[score], after.scores[score]))),
                ),
              ),
            ),
          ),
          el("p.quiet.small", {}, `seed ${before.seed}`, before.task ? `, task ${before.task}` : ""),
          el(
            "p.quiet.small",
            {},
            "Move over the image, or move the slider. Left and right keys turn to the next pair. The wheel enlarges, " +
              "and dragging moves what is enlarged. ",
            KEYS,
          ),
        ),
      ),
    );
    this.transport.show(stack);
    if (!still()) this.transport.clock.play();
  }
}

// null: a reward could not judge one of the two
const change = (before, after) => (before === null || after === null ? null : after - before);
