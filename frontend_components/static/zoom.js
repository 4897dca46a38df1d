// One enlargement for many pictures: every cell shows the same part of its own.
import { el } from "./dom.js";

export const MOST = 16;
const STEP = 1.5;
const MOVED = 4; // pixels: a pointer that went further dragged, and did not click
const SHARE = 0.1; // of the picture that an arrow key moves

/**
 * A point of a cell that is enlarged `scale` times and shifted by `from` (shares of its side) to another scale, without
 * moving: the shift that it needs. The picture always fills its cell.
 */
export function shifted(from, point, scale, to) {
  return bounded(point - ((point - from) * to) / scale, to);
}

const bounded = (shift, scale) => Math.min(0, Math.max(1 - scale, shift));

export class Zoom {
  /** host: every .frame below it is a cell. plainWheel: the wheel zooms without a key, where nothing else scrolls. */
  constructor(host, plainWheel = false) {
    Object.assign(this, { host, plainWheel, scale: 1, x: 0, y: 0, dragged: false });
    this.level = el("output.num.small", { "aria-live": "polite" });
    const button = (label, name, key, act) =>
      el("button", { "aria-label": name, title: `${name} (${key})`, onclick: act }, label);
    this.element = el(
      "div.row.tight.zoom-bar",
      { role: "group", "aria-label": "Zoom of all pictures" },
      button("−", "Zoom out", "-", () => this.by(1 / STEP)),
      this.level,
      button("+", "Zoom in", "+", () => this.by(STEP)),
      (this.whole = button("Whole", "Show whole pictures", "0", () => this.reset())),
    );
    host.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    host.addEventListener("pointerdown", (event) => this.grab(event));
    host.addEventListener("click", (event) => this.dragged && event.stopPropagation(), { capture: true });
    host.addEventListener("dragstart", (event) => event.preventDefault());
    this.draw();
  }

  /** at: the point that stays, as shares of the cell. */
  by(factor, at = [0.5, 0.5]) {
    const scale = Math.max(1, Math.min(MOST, this.scale * factor));
    this.x = shifted(this.x, at[0], this.scale, scale);
    this.y = shifted(this.y, at[1], this.scale, scale);
    this.scale = scale;
    this.draw();
  }

  /** x, y: shares of the cell by which the picture moves. */
  pan(x, y) {
    this.x = bounded(this.x + x, this.scale);
    this.y = bounded(this.y + y, this.scale);
    this.draw();
  }

  reset() {
    Object.assign(this, { scale: 1, x: 0, y: 0 });
    this.draw();
  }

  draw() {
    const { style } = this.host;
    style.setProperty("--zoom", this.scale);
    style.setProperty("--shift-x", 100 * this.x + "%");
    style.setProperty("--shift-y", 100 * this.y + "%");
    this.host.classList.toggle("zoomed", this.scale > 1);
    this.level.textContent = Math.round(100 * this.scale) + " %";
    this.whole.disabled = this.scale === 1;
  }

  wheel(event) {
    const cell = event.target.closest(".frame");
    if (!cell || !(this.plainWheel || event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const box = cell.getBoundingClientRect();
    const at = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    this.by(2 ** (-event.deltaY / 240), at);
  }

  /** While the pictures are enlarged, dragging one moves all. */
  grab(event) {
    this.dragged = false;
    const cell = event.target.closest(".frame");
    if (!cell || this.scale === 1 || event.button !== 0) return;
    const box = cell.getBoundingClientRect();
    const [left, top] = [event.clientX, event.clientY];
    let [x, y] = [left, top];
    const move = (to) => {
      this.dragged ||= Math.hypot(to.clientX - left, to.clientY - top) > MOVED;
      this.pan((to.clientX - x) / box.width, (to.clientY - y) / box.height);
      [x, y] = [to.clientX, to.clientY];
    };
    const over = new AbortController();
    addEventListener("pointermove", move, { signal: over.signal });
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => over.abort(), { signal: over.signal });
  }

  /** Whether the key was one of zoom: + and - change it, 0 shows the whole, Shift and arrows move. */
  key(event) {
    const move = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key === "+" || event.key === "=") this.by(STEP);
    else if (event.key === "-") this.by(1 / STEP);
    else if (event.key === "0") this.reset();
    else if (move && event.shiftKey) this.pan(SHARE * move[0], SHARE * move[1]);
    else return false;
    return true;
  }
}
