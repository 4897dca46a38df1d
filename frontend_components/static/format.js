// Numbers, durations and states as people read them.

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("-", "−");
  return value.toFixed(digits).replace("-", "−");
}

export function signed(value, digits = 3) {
  return value > 0 ? "+" + number(value, digits) : number(value, digits);
}

export function percent(value, digits = 1) {
  return value === null || value === undefined ? "–" : number(100 * value, digits) + " %";
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US").replaceAll(",", " ");
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + (s < 600 ? (s % 60) + " s" : "");
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

/** Seconds since an ISO time, or null. */
export function since(iso) {
  return iso ? (Date.now() - Date.parse(iso)) / 1000 : null;
}

export function ago(iso) {
  const seconds = since(iso);
  if (seconds === null) return "–";
  return seconds < 2 ? "just now" : duration(seconds).trim() + " ago";
}

export function clock(iso) {
  return iso ? new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "–";
}

export function bytes(size) {
  if (size < 1e3) return size + " B";
  if (size < 1e6) return (size / 1e3).toFixed(1) + " kB";
  if (size < 1e9) return (size / 1e6).toFixed(1) + " MB";
  return (size / 1e9).toFixed(2) + " GB";
}

export const live = (state) => ["queued", "starting", "running", "stopping"].includes(state);
