// The server: JSON by GET and POST, media by hash, and one event stream a page.

const root = new URL("../", import.meta.url);

export const at = (path) => new URL(path, root).href;
export const media = (sha256) => at("media/" + sha256);
export function page(name, params = {}) {
  const query = new URLSearchParams(params).toString();
  return at(name + (query ? "?" + query : ""));
}
export const asked = (name) => new URLSearchParams(location.search).get(name);

/** Writes what is shown into the address, so that a reload or a link shows the same. */
export function remember(params) {
  const url = new URL(location.href);
  for (const [key, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") url.searchParams.delete(key);
    else url.searchParams.set(key, value);
  }
  history.replaceState(null, "", url);
}

export async function get(path, params = {}) {
  return answer(await fetch(page("api/v1/" + path, params)));
}

export async function post(path, body) {
  return answer(
    await fetch(at("api/v1/" + path), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body ?? {}),
    }),
  );
}

/** Sends a form with files. */
export async function upload(path, form) {
  return answer(await fetch(at("api/v1/" + path), { method: "POST", body: form }));
}

/** The server understood a request and did not do it: status and body say why. No answer at all is another error. */
export class Refused extends Error {
  constructor(status, body) {
    super(typeof body.detail === "string" ? body.detail : JSON.stringify(body.detail));
    Object.assign(this, { status, body });
  }
}

async function answer(response) {
  const body = await response.json();
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}

/**
 * Follows a run (null: all runs). handlers: {step, progress, state, tree, samples, evaluation, checkpoint, resync, link}.
 * link(true | false) says whether the stream stands. The stream ends when `element` leaves the page.
 */
export function follow(run, element, handlers) {
  const source = new EventSource(page("events", run ? { run } : {}));
  const gone = setInterval(() => {
    if (!element.isConnected) {
      source.close();
      clearInterval(gone);
    }
  }, 2000);
  for (const kind of ["step", "progress", "state", "tree", "samples", "evaluation", "checkpoint", "resync"]) {
    if (handlers[kind]) source.addEventListener(kind, (event) => handlers[kind](JSON.parse(event.data)));
  }
  source.addEventListener("hello", () => handlers.link?.(true));
  source.addEventListener("error", () => handlers.link?.(false));
  return source;
}
