// Elements are built here and nowhere else. Text is always set as text, never parsed as markup.

/** el("a.quiet", {href, onclick, ...}, children...): children are nodes, text, arrays of them, or null. */
export function el(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

export function card(title, body, ...tools) {
  return el("section.card", { "aria-label": title }, el("header", {}, el("h2", {}, title), tools), body);
}

/** The head of a table with one column for each name. */
export function headRow(names) {
  return el(
    "thead",
    {},
    el(
      "tr",
      {},
      names.map((name) => el("th", { scope: "col" }, name)),
    ),
  );
}

/** Calls draw(value) at most once a frame, with the newest value. */
export function eachFrame(draw) {
  let waiting = false;
  let newest;
  return (value) => {
    newest = value;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw(newest);
    });
  };
}

/** Runs job() now, and once more afterwards if it was asked for while it ran: never two at a time. */
export function oneAtATime(job) {
  let running = false;
  let again = false;
  return async function ask() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await job();
    } finally {
      running = false;
      if (again) {
        again = false;
        ask();
      }
    }
  };
}
