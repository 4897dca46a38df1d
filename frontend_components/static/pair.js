// The two pictures or videos of one showing: loaded before they are seen, zoomed and played together.
import { at } from "./api.js";
import { el, fill } from "./dom.js";

const ZOOM = 3;
const SMALL = 160; // pixels: pictures up to this size are shown with their pixels, not blurred up
const DRIFT = 0.06; // seconds that one video may be ahead of the other

export class Pair {
  /** showing: {id, prompt, kind, left, right}. */
  constructor(showing) {
    Object.assign(this, { showing, id: showing.id, zoomed: false, place: [0.5, 0.5] });
    this.element = el("div.panes");
    this.load();
  }

  /** ready: a promise that both sides can be drawn without a wait. It fails where one did not load. */
  load() {
    const { kind, left, right } = this.showing;
    const make = kind === "video" ? video : image;
    this.sides = [make(left, "Left"), make(right, "Right")];
    fill(
      this.element,
      this.sides.map(({ node }, i) => this.pane(node, ["left", "right"][i])),
    );
    this.ready = Promise.all(this.sides.map((side) => side.ready)).then(() => this.even());
    this.ready.catch(() => {});
    return this.ready;
  }

  /** Nothing about the way they are drawn may differ between the sides. */
  even() {
    const widths = this.sides.map(({ node }) => node.naturalWidth ?? node.videoWidth);
    this.element.classList.toggle("pixels", Math.max(...widths) <= SMALL);
  }

  pane(node, name) {
    const box = el("div.pane", { "data-side": name }, node);
    const spot = (event) => {
      const frame = box.getBoundingClientRect();
      return [(event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height];
    };
    box.addEventListener("click", (event) => this.zoom(!this.zoomed, spot(event)));
    box.addEventListener("pointermove", (event) => {
      this.place = spot(event);
      if (this.zoomed) this.aim();
    });
    return box;
  }

  zoom(on, place = this.place) {
    Object.assign(this, { zoomed: on, place });
    this.element.classList.toggle("zoomed", on);
    this.aim();
  }

  /** Moves the enlarged part of both sides. by: shares of the side's width and height. */
  pan(x, y) {
    this.place = [this.place[0] + x, this.place[1] + y].map((share) => Math.max(0, Math.min(1, share)));
    this.aim();
  }

  aim() {
    const [x, y] = this.place.map((share) => 100 * share + "%");
    for (const { node } of this.sides)
      Object.assign(node.style, { transformOrigin: `${x} ${y}`, transform: this.zoomed ? `scale(${ZOOM})` : "" });
  }

  get videos() {
    return this.showing.kind === "video" ? this.sides.map((side) => side.node) : [];
  }

  /** Both videos run on one clock: the right one follows the left one. */
  play(on) {
    const [lead, follower] = this.videos;
    if (!lead) return;
    follower.currentTime = lead.currentTime;
    // A start that the next stop interrupts is rejected; that is no fault.
    for (const node of this.videos) on ? node.play().catch(() => {}) : node.pause();
    lead.ontimeupdate = () => {
      if (Math.abs(follower.currentTime - lead.currentTime) > DRIFT) follower.currentTime = lead.currentTime;
    };
  }

  get playing() {
    return this.videos.length > 0 && !this.videos[0].paused;
  }

  mark(choice) {
    if (choice) this.element.dataset.choice = choice;
    else delete this.element.dataset.choice;
  }

  leave() {
    this.play(false);
    this.element.remove();
  }
}

function image(url, name) {
  const node = el("img", { src: at(url.replace(/^\//, "")), alt: name + " picture", draggable: "false" });
  return { node, ready: node.decode() };
}

function video(url, name) {
  const node = el("video", {
    src: at(url.replace(/^\//, "")),
    "aria-label": name + " video",
    preload: "auto",
    loop: true,
    playsinline: true,
  });
  node.muted = true;
  const ready = new Promise((over, failed) => {
    node.addEventListener("canplaythrough", over, { once: true });
    node.addEventListener("error", () => failed(new Error(name + " video did not load")), { once: true });
  });
  return { node, ready };
}
