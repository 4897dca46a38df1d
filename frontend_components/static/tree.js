// The tree as people use it: picked, panned, zoomed and walked, by mouse and keys.
import { el, fill } from "./dom.js";
import { TreeDrawing } from "./drawing.js";
import { number } from "./format.js";

export class TreeView extends TreeDrawing {
  /** onselect(node | null) is called when a person picks a node. */
  constructor({ onselect = () => {}, label = "Rollout tree" } = {}) {
    const canvas = el("canvas.tree-canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": label + ". Arrow keys walk from node to node.",
    });
    const tip = el("div.tree-tip", { hidden: true });
    const spoken = el("p.visually-hidden", { "aria-live": "polite" });
    super(el("div.tree-view", {}, canvas, tip, spoken), canvas);
    Object.assign(this, { onselect, tip, spoken });
    canvas.espalier = this;
    this.listen();
  }

  /** The node under a point of the canvas, or null. */
  hit(x, y) {
    let best = null;
    let least = 16;
    for (const node of this.levels.flat().filter((n) => this.shown(n))) {
      const place = this.place(node);
      const half = this.size(node) / 2;
      const centre = node.leaf && half ? place.x + 2 + half : place.x;
      const distance = Math.hypot(Math.max(0, Math.abs(x - centre) - half), Math.max(0, Math.abs(y - place.y) - half));
      if (distance < least) [best, least] = [node, distance];
    }
    return best;
  }

  select(node) {
    this.chosen = node;
    if (node) this.spoken.textContent = describe(node);
    this.onselect(node);
    this.redraw();
  }

  listen() {
    let drag = null;
    const at = (event) => [event.offsetX, event.offsetY];
    this.canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.offsetX, y: event.offsetY, moved: false };
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.tree) return;
      if (drag && event.buttons) {
        if (!drag.moved && Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) < 4) return;
        if (!drag.moved) this.canvas.setPointerCapture(event.pointerId);
        this.view.x += event.offsetX - (drag.moved ? drag.x : event.offsetX);
        this.view.y += event.offsetY - (drag.moved ? drag.y : event.offsetY);
        drag = { x: event.offsetX, y: event.offsetY, moved: true };
        this.redraw();
      } else this.hover(this.hit(...at(event)), event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved && this.tree) this.select(this.hit(...at(event)));
      drag = null;
    });
    this.canvas.addEventListener("pointerleave", () => this.hover(null));
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
        event.preventDefault();
        this.zoom(Math.exp(-(event.deltaY || event.deltaX) / 400), ...at(event));
      },
      { passive: false },
    );
    this.canvas.addEventListener("dblclick", (event) => this.zoom(1.8, ...at(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const k = Math.max(1, Math.min(16, this.view.k * factor));
    const ratio = k / this.view.k;
    this.view =
      k === 1 ? { k: 1, x: 0, y: 0 } : { k, x: x - (x - this.view.x) * ratio, y: y - (y - this.view.y) * ratio };
    this.redraw();
  }

  hover(node, event) {
    if (node !== this.hovered) this.redraw();
    this.hovered = node;
    this.canvas.style.cursor = node ? "pointer" : "grab";
    this.tip.hidden = !node;
    if (!node) return;
    fill(
      this.tip,
      describe(node)
        .split("; ")
        .map((line) => el("div", {}, line)),
    );
    const right = event.offsetX > this.width - 220;
    Object.assign(this.tip.style, {
      left: right ? "" : event.offsetX + 16 + "px",
      right: right ? this.width - event.offsetX + 16 + "px" : "",
      top: Math.min(event.offsetY + 12, this.height - 110) + "px",
    });
  }

  key(event) {
    if (!this.tree) return;
    const keys = {
      "+": () => this.zoom(1.4),
      "=": () => this.zoom(1.4),
      "-": () => this.zoom(1 / 1.4),
      0: () => this.reset(),
      Escape: () => this.select(null),
    };
    const walk = {
      ArrowLeft: (n) => this.up(n),
      ArrowRight: (n) => this.down(n),
      ArrowUp: (n) => this.beside(n, -1),
      ArrowDown: (n) => this.beside(n, 1),
    };
    if (keys[event.key]) keys[event.key]();
    else if (walk[event.key])
      this.select(this.chosen ? (walk[event.key](this.chosen) ?? this.chosen) : this.levels[0][0]);
    else return;
    event.preventDefault();
  }

  up(node) {
    let at = node.parent;
    while (at && !this.shown(at)) at = at.parent;
    return at;
  }

  down(node) {
    let at = node.children[0];
    while (at && !this.shown(at)) at = at.children[0];
    return at;
  }

  beside(node, way) {
    const level = this.levels[node.level].filter((n) => this.shown(n)).toSorted((a, b) => a.y - b.y);
    return level[level.indexOf(node) + way];
  }
}

/** One node in words, parts separated by "; ". */
export function describe(node) {
  const words = [`Step ${node.level}, node ${node.index}`];
  if (node.value !== null) words.push(`value ${number(node.value)}`);
  if (node.advantage !== null) words.push(`advantage ${number(node.advantage)}`);
  if (node.logp !== null) words.push(`log-probability ${number(node.logp)}`);
  if (node.still) words.push("deterministic step");
  if (!node.kept) words.push("pruned: not trained on");
  return words.join("; ");
}
