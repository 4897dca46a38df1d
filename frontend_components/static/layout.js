// A drawn tree as nodes with places. Pure: a TreeDrawn record in, nodes out. x is the level, y counts leaves.

/**
 * The nodes of a TreeDrawn record as far as it has been sampled, parents before children.
 * A node is {level, index, parent, children, y, value, advantage, logp, kept, still, split, tip, path, parts}:
 * still = reached by a deterministic step, tip = has no children, path = sum of log-probabilities from the root (mean
 * over latent dimensions), parts = mean of the raw rewards of the leaves below it.
 */
export function nodesOf(tree) {
  const drawn = Math.min(tree.level, tree.parents.length);
  const pictured = tree.sprite?.nodes.filter(([level]) => level === 0).length;
  const roots = tree.parents.length ? Math.max(...tree.parents[0]) + 1 : pictured || 1;
  const levels = [Array.from({ length: roots }, (_, index) => nodeOf(tree, 0, index, null))];
  for (let level = 1; level <= drawn; level++) {
    levels.push(tree.parents[level - 1].map((parent, index) => nodeOf(tree, level, index, levels[level - 1][parent])));
  }
  for (const node of levels.flat()) {
    node.split = node.children.length > 1;
    node.tip = node.children.length === 0;
  }
  let next = 0;
  const placeTips = (node) => (node.tip ? (node.y = next++) : node.children.forEach(placeTips));
  levels[0].forEach(placeTips);
  for (const level of levels.toReversed()) {
    for (const node of level) {
      if (!node.tip) node.y = mean(node.children.map((child) => child.y));
      node.leaves = node.tip ? 1 : node.children.reduce((sum, child) => sum + child.leaves, 0);
      node.parts = partsOf(tree, node);
    }
  }
  bend(levels.flat());
  return levels;
}

function nodeOf(tree, level, index, parent) {
  const logp = level ? (tree.logps[level - 1]?.[index] ?? null) : null;
  // Within a noisy step an edge may follow the ODE too; once the tree has been judged, it is one without a density.
  const still = level > 0 && (tree.rates[level - 1] === 0 || tree.logps[level - 1]?.[index] === null);
  const node = {
    level,
    index,
    parent,
    children: [],
    y: 0,
    logp,
    still,
    value: tree.values[level]?.[index] ?? null,
    advantage: level ? (tree.advantages[level - 1]?.[index] ?? null) : null,
    // A deterministic step is never trained, which is not pruning: it continues what came before it.
    kept: still ? parent.kept : level ? (tree.keep[level - 1]?.[index] ?? true) : true,
    path: (parent?.path ?? 0) + (logp ?? 0),
    leaf: level === tree.sigmas.length - 1,
  };
  parent?.children.push(node);
  return node;
}

function partsOf(tree, node) {
  const names = Object.keys(tree.parts);
  if (node.leaf) return Object.fromEntries(names.map((name) => [name, tree.parts[name][node.index]]));
  const weight = (child) => child.leaves / node.leaves;
  return Object.fromEntries(
    names.map((name) => [name, node.children.reduce((sum, c) => sum + weight(c) * (c.parts[name] ?? NaN), 0)]),
  );
}

/** Roots, splits and tips: what is left when chains of only children are folded. */
export const isKnot = (node) => !node.parent || node.split || node.tip;

// Nodes inside a chain are put on one curve from knot to knot, so that folding a chain moves nothing.
function bend(nodes) {
  for (const end of nodes.filter((node) => node.parent && isKnot(node))) {
    let start = end.parent;
    while (!isKnot(start)) start = start.parent;
    for (let node = end.parent; node !== start; node = node.parent) node.y = along(start, end, node.level);
    end.start = start;
  }
}

/** The other nodes of this level that left the same split: those its advantage is weighed against first. */
export function siblingsOf(node, levels) {
  const origin = (at) => {
    while (at.parent && !at.parent.split) at = at.parent;
    return at.parent;
  };
  return levels[node.level].filter((other) => other !== node && origin(other) === origin(node));
}

/** y of the curve between two knots at a level in between; it leaves the split quickly and arrives level. */
export function along(start, end, level) {
  const u = (level - start.level) / (end.level - start.level);
  return start.y + (end.y - start.y) * (1 - (1 - u) ** 2.6);
}

/** Largest |advantage|, the end of the colour scale; at least 1, so that a tree without signal looks like one. */
export function reach(levels) {
  return Math.max(1, ...levels.flat().map((node) => Math.abs(node.advantage ?? 0)));
}

/** Sets node.chance in 0..1: the rank of its path's probability between the least and the most likely of its level. */
export function rankPaths(levels) {
  for (const level of levels) {
    const low = Math.min(...level.map((node) => node.path));
    const high = Math.max(...level.map((node) => node.path));
    for (const node of level) node.chance = high > low ? (node.path - low) / (high - low) : 0.5;
  }
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
