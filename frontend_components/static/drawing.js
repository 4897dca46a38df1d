// What a tree looks like: places of nodes, and strokes on a canvas. tree.js adds the hand that moves it.
import { media } from "./api.js";
import { eachFrame } from "./dom.js";
import { number } from "./format.js";
import { along, isKnot, nodesOf, rankPaths, reach } from "./layout.js";
import { colour, diverging } from "./palette.js";

const PAD = { left: 34, right: 96, top: 44, bottom: 22 };

export class TreeDrawing {
  /** element holds the canvas and gives it its size. */
  constructor(element, canvas) {
    Object.assign(this, { element, canvas, levels: [], folded: true, chosen: null, hovered: null });
    this.view = { k: 1, x: 0, y: 0 };
    this.redraw = eachFrame(() => this.draw());
    new ResizeObserver(() => this.redraw()).observe(element);
    addEventListener("espalier-theme", () => this.redraw());
  }

  /** Shows a TreeDrawn record. The chosen node and the zoom stay where they are, as far as the record still has them. */
  show(tree) {
    this.tree = tree;
    this.levels = nodesOf(tree);
    rankPaths(this.levels);
    this.reach = reach(this.levels);
    const judged = tree.rewards.filter((one) => one !== null);
    this.digits = Math.max(...judged) - Math.min(...judged) < 0.1 ? 3 : 2;
    this.levels.flat().forEach((node) => (node.cell = null));
    tree.sprite?.nodes.forEach(([level, index], cell) => {
      if (this.levels[level]?.[index]) this.levels[level][index].cell = cell;
    });
    this.loadSprite(tree.sprite);
    this.chosen = this.chosen ? (this.levels[this.chosen.level]?.[this.chosen.index] ?? null) : null;
    this.hovered = null;
    this.redraw();
  }

  loadSprite(sprite) {
    const sha = sprite?.media.sha256 ?? null;
    if (sha === this.spriteSha) return;
    this.spriteSha = sha;
    this.sprite = null;
    if (!sha) return;
    const image = new Image();
    image.onload = () => {
      if (this.spriteSha !== sha) return;
      this.sprite = image;
      this.redraw();
      this.onsprite?.();
    };
    image.src = media(sha);
  }

  fold(folded) {
    this.folded = folded;
    this.redraw();
  }

  reset() {
    this.view = { k: 1, x: 0, y: 0 };
    this.redraw();
  }

  shown(node) {
    return !this.folded || isKnot(node);
  }

  /** Place of a node in CSS pixels of the canvas. */
  place(node) {
    return { x: this.x(node.level), y: this.y(node.y) };
  }

  x(level) {
    const steps = Math.max(1, this.tree.sigmas.length - 1);
    return (PAD.left + (level / steps) * (this.width - PAD.left - PAD.right)) * this.view.k + this.view.x;
  }

  y(leaf) {
    return (PAD.top + 8 + (leaf + 0.5) * this.gap()) * this.view.k + this.view.y;
  }

  gap() {
    const leaves = this.levels[0].reduce((sum, root) => sum + root.leaves, 0);
    return (this.height - PAD.top - PAD.bottom) / leaves;
  }

  draw() {
    const box = this.element.getBoundingClientRect();
    if (!box.width || !this.tree) return;
    const ratio = devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    if (this.canvas.width !== Math.round(box.width * ratio) || this.canvas.height !== Math.round(box.height * ratio)) {
      this.canvas.width = Math.round(box.width * ratio);
      this.canvas.height = Math.round(box.height * ratio);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, box.height);
    this.tint = diverging();
    this.gaps = this.levels.map((level) => narrowest(level.filter((node) => this.shown(node))));
    const path = this.pathOf(this.hovered ?? this.chosen);
    this.drawGuides(pen);
    for (const node of this.levels.flat()) {
      if (node.start) this.drawBranch(pen, node, path);
    }
    for (const node of this.levels.flat()) if (this.shown(node)) this.drawNode(pen, node, path);
    this.drawAxis(pen);
  }

  // The node, its ancestors and its descendants: what its credit came from and went to.
  pathOf(node) {
    const path = new Set();
    for (let at = node; at; at = at.parent) path.add(at);
    const below = (at) => at.children.forEach((child) => (path.add(child), below(child)));
    if (node) below(node);
    return path;
  }

  drawGuides(pen) {
    const splits = new Set(
      this.levels
        .flat()
        .filter((node) => node.split)
        .map((node) => node.level),
    );
    pen.lineWidth = 1;
    pen.strokeStyle = colour("edge");
    for (const level of splits) {
      pen.beginPath();
      pen.moveTo(this.x(level), PAD.top);
      pen.lineTo(this.x(level), this.height - 4);
      pen.stroke();
    }
    this.splits = splits;
  }

  drawAxis(pen) {
    const steps = this.tree.sigmas.length - 1;
    pen.fillStyle = colour("surface");
    pen.globalAlpha = 0.92;
    pen.fillRect(0, 0, this.width, PAD.top - 4);
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    const every = this.x(1) - this.x(0) >= 30 ? 1 : 5;
    for (let level = 0; level <= steps; level++) {
      const split = this.splits.has(level);
      if (level % every && !split && level !== steps) continue;
      if (
        every > 1 &&
        !split &&
        level !== steps &&
        [...this.splits].some((s) => Math.abs(s - level) * (this.x(1) - this.x(0)) < 32)
      )
        continue;
      pen.font = (split ? "600 " : "") + "12px " + colour("sans");
      pen.fillStyle = colour(split ? "accent" : "quiet");
      pen.fillText(String(level), this.x(level), 34);
      if (split) this.drawFork(pen, this.x(level) + (level > 9 ? 17 : 13), 30);
    }
    pen.font = "12px " + colour("sans");
    pen.fillStyle = colour("quiet");
    pen.textAlign = "left";
    pen.fillText("noise", Math.max(8, this.x(0) - 12), 14);
    pen.textAlign = "right";
    pen.fillText("image", Math.min(this.width - 60, this.x(steps) + 20), 14);
    pen.textAlign = "center";
    pen.fillText("denoising step", this.width / 2, 14);
  }

  drawFork(pen, x, y) {
    pen.strokeStyle = colour("accent");
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x - 5, y);
    pen.lineTo(x - 1, y);
    pen.lineTo(x + 4, y - 4);
    pen.moveTo(x - 1, y);
    pen.lineTo(x + 4, y + 4);
    pen.stroke();
  }

  // From the knot before it to this knot, one piece a denoising step: each piece shows its own edge.
  drawBranch(pen, end, path) {
    const chain = [];
    for (let node = end; node !== end.start; node = node.parent) chain.unshift(node);
    pen.lineCap = path.size ? "butt" : "round"; // faint round ends would show where they overlap
    for (const node of chain) {
      const on = path.has(node);
      pen.strokeStyle = node.advantage === null ? colour("edge-strong") : this.tint(node.advantage / this.reach);
      pen.globalAlpha = path.size && !on ? 0.42 : 1;
      pen.lineWidth = (node.still ? 1 : 1.6 + 3.2 * end.chance) + (on && path.size ? 1 : 0);
      pen.setLineDash(node.kept ? [] : [2, 5]);
      pen.beginPath();
      const pieces = Math.max(4, Math.ceil((this.x(1) - this.x(0)) / 7));
      for (let i = 0; i <= pieces; i++) {
        const level = node.level - 1 + i / pieces;
        pen.lineTo(this.x(level), this.y(along(end.start, end, level)));
      }
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  /** Edge of a node's thumbnail in CSS pixels; 0: too small for one, drawn as a dot. */
  size(node) {
    if (node.cell === null || !this.sprite) return 0;
    const room = node.leaf
      ? this.gap() * this.view.k * 0.94
      : Math.min(this.gaps[node.level] * this.gap(), this.height / 5) * this.view.k * 0.7;
    const most = node.leaf ? 96 : 46 * Math.min(2, this.view.k);
    const size = Math.min(most, room);
    return size >= 9 ? size : 0;
  }

  drawNode(pen, node, path) {
    const { x, y } = this.place(node);
    if (x < -120 || x > this.width + 120 || y < -60 || y > this.height + 60) return;
    const size = this.size(node);
    const tint = node.advantage === null ? colour("edge-strong") : this.tint(node.advantage / this.reach);
    pen.globalAlpha = path.size && !path.has(node) ? 0.6 : 1;
    if (size) this.drawThumbnail(pen, node, x, y, size, tint);
    else {
      pen.beginPath();
      pen.arc(x, y, node.split || !node.parent ? 5 : isKnot(node) ? 4 : 2.4, 0, 2 * Math.PI);
      pen.fillStyle = tint;
      pen.fill();
      pen.lineWidth = 1.5;
      pen.strokeStyle = colour("surface");
      pen.stroke();
    }
    pen.globalAlpha = 1;
    if (node.leaf && node.value !== null && this.gap() * this.view.k >= 12) {
      pen.font = (node === this.chosen ? "650 " : "") + "12px " + colour("sans");
      pen.textAlign = "left";
      pen.fillStyle = colour(node.kept ? "ink" : "quiet");
      pen.fillText(number(node.value, this.digits), x + (size || 8) + 8, y + 4);
    }
    if (node === this.chosen || node === this.hovered) this.ring(pen, node, x, y, size);
  }

  drawThumbnail(pen, node, x, y, size, tint) {
    const { cell, columns } = this.tree.sprite;
    const left = node.leaf ? x + 2 : x - size / 2;
    pen.imageSmoothingEnabled = size < 2 * cell;
    pen.strokeStyle = tint;
    pen.lineWidth = 2;
    pen.strokeRect(left - 1, y - size / 2 - 1, size + 2, size + 2);
    pen.drawImage(
      this.sprite,
      (node.cell % columns) * cell,
      Math.floor(node.cell / columns) * cell,
      cell,
      cell,
      left,
      y - size / 2,
      size,
      size,
    );
  }

  ring(pen, node, x, y, size) {
    const half = (size || 10) / 2 + 4;
    const centre = node.leaf && size ? x + 2 + size / 2 : x;
    pen.strokeStyle = colour(node === this.chosen ? "ink" : "quiet");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.roundRect(centre - half, y - half, 2 * half, 2 * half, 4);
    pen.stroke();
  }
}

function narrowest(nodes) {
  const ys = nodes.map((node) => node.y).toSorted((a, b) => a - b);
  return Math.min(Infinity, ...ys.slice(1).map((y, i) => y - ys[i]));
}
