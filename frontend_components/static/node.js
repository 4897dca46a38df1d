// What is known about one node of a tree: image, credit, rewards, siblings. And the whole tree as a table.
import { el } from "./dom.js";
import { number, signed } from "./format.js";
import { siblingsOf } from "./layout.js";
import { colour, diverging } from "./palette.js";

/** A node's thumbnail at any size, cut from the sprite of its tree. */
export function picture(view, node, size, label) {
  const canvas = el("canvas.thumb", {
    width: 2 * size,
    height: 2 * size,
    role: "img",
    "aria-label": label,
    style: { width: size + "px", height: size + "px" },
  });
  const pen = canvas.getContext("2d");
  if (view.sprite && node.cell !== null) {
    const { cell, columns } = view.tree.sprite;
    pen.imageSmoothingEnabled = 2 * size < 4 * cell;
    pen.imageSmoothingQuality = "high";
    pen.drawImage(
      view.sprite,
      (node.cell % columns) * cell,
      Math.floor(node.cell / columns) * cell,
      cell,
      cell,
      0,
      0,
      2 * size,
      2 * size,
    );
  } else {
    pen.fillStyle = colour("sunk");
    pen.fillRect(0, 0, 2 * size, 2 * size);
  }
  return canvas;
}

export function nodePanel(view, node) {
  if (!node) {
    return el(
      "div.node-panel.empty",
      {},
      el("h2", {}, "Pick a node"),
      el(
        "p",
        {},
        "Click a thumbnail or a dot, or focus the tree and walk with the arrow keys. Its image, its credit and its siblings appear here.",
      ),
    );
  }
  const tint = diverging();
  const siblings = siblingsOf(node, view.levels);
  const role = node.leaf ? "Leaf" : node.split ? "Split" : node.parent ? "Node" : "Root";
  return el(
    "div.node-panel",
    {},
    node.cell !== null ? picture(view, node, 200, `Image at step ${node.level}, node ${node.index}`) : null,
    el(
      "div.row",
      {},
      el("h2", {}, `${role} ${node.index} at step ${node.level}`),
      node.kept ? null : el("span.state.paused", {}, "pruned"),
    ),
    el(
      "dl.facts",
      {},
      fact(
        node.leaf ? "reward" : "value",
        number(node.value),
        node.leaf ? "of this image" : `fused from ${node.leaves} leaves`,
      ),
      fact(
        "advantage",
        signed(node.advantage),
        "of the edge into it, within its depth",
        node.advantage === null ? null : tint(node.advantage / view.reach),
      ),
      fact(
        "log-prob.",
        number(node.logp),
        node.still ? "deterministic step: none" : "of the last step, mean over dimensions",
      ),
      fact("noise level", number(view.tree.sigmas[node.level], 3), "sigma here"),
    ),
    Object.keys(node.parts).length
      ? el(
          "div.parts",
          {},
          el("h3", {}, node.leaf ? "Rewards" : "Rewards, mean of its leaves"),
          Object.entries(node.parts).map(([name, value]) => part(view, name, value)),
        )
      : null,
    siblings.length
      ? el(
          "div",
          {},
          el("h3", {}, siblings.length === 1 ? "Sibling" : `${siblings.length} siblings`),
          el(
            "div.siblings",
            {},
            siblings.slice(0, 24).map((other) =>
              el(
                "button.sibling",
                {
                  onclick: () => view.select(other),
                  "aria-label": `Node ${other.index}, advantage ${number(other.advantage)}`,
                },
                other.cell !== null ? picture(view, other, 64, "") : null,
                el("span", { style: { color: "inherit" } }, signed(other.advantage, 2)),
              ),
            ),
          ),
        )
      : null,
  );
}

function fact(name, value, note, swatch = null) {
  return el(
    "div",
    {},
    el("dt", {}, name),
    el("dd", {}, swatch ? el("i.swatch", { style: { background: swatch } }) : null, value),
    el("dd.quiet.small", {}, note),
  );
}

// A bar on the range that this reward takes over the leaves of the tree.
function part(view, name, value) {
  const all = view.tree.parts[name].filter((one) => one !== null); // null: it could not be judged
  const low = Math.min(...all);
  const high = Math.max(...all);
  const share = high > low ? (value - low) / (high - low) : 1;
  return el(
    "div.part",
    {},
    el("span", {}, name),
    el("span.bar", {}, el("i", { style: { width: 100 * share + "%" } })),
    el("span.num", {}, number(value, 2)),
  );
}

/** Every shown node as a table row: the tree for those who cannot see the canvas, and for copying numbers. */
export function nodeTable(view) {
  const shown = view.levels.flat().filter((node) => view.shown(node));
  return el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["step", "node", "parent", "value", "advantage", "log-prob.", "trained on", ""].map((name, i) =>
          el(i > 0 && i < 6 ? "th.num" : "th", { scope: "col" }, name),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      shown.map((node) =>
        el(
          "tr",
          {},
          el("td", {}, String(node.level)),
          [node.index, node.parent?.index ?? "–", number(node.value), number(node.advantage), number(node.logp)].map(
            (text) => el("td.num", {}, String(text)),
          ),
          el("td", {}, node.parent ? (node.kept ? "yes" : "no, pruned") : "–"),
          el("td", {}, el("button.link", { onclick: () => view.select(node) }, "show")),
        ),
      ),
    ),
  );
}

export function legend(view) {
  const stops = Array.from({ length: 21 }, (_, i) => diverging()((i - 10) / 10)).join(", ");
  const known = view.levels.flat().some((node) => node.advantage !== null);
  return el(
    "div.legend",
    {},
    known
      ? el(
          "span",
          {},
          "advantage within its depth",
          el("b.num", {}, number(-view.reach, 1)),
          el("i.ramp", { style: { background: `linear-gradient(90deg, ${stops})` } }),
          el("b.num", {}, "+" + number(view.reach, 1)),
        )
      : el("span", {}, "no credit yet: still sampling"),
    el("span", {}, el("i.stroke.wide"), "wide = likely path"),
    el("span", {}, el("i.stroke.dashed"), "dashed = pruned"),
    el("span", {}, el("i.stroke.thin"), "thin = deterministic step"),
    el("span", {}, "Ctrl + wheel zooms, drag pans"),
  );
}
