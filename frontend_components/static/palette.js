// Colours that scripts draw with, read from theme.css so that there is one place for both modes.

export function colour(name) {
  return getComputedStyle(document.documentElement)
    .getPropertyValue("--" + name)
    .trim();
}

export const lines = () => [1, 2, 3, 4, 5, 6].map((i) => colour("line-" + i));

/** Diverging scale, ochre to teal (told apart by every common kind of colour vision): advantage / reach -> CSS colour. */
export function diverging() {
  const [neg, mid, pos] = ["neg", "mid", "pos"].map((name) => channels(colour(name)));
  return (share) => {
    const s = Math.max(-1, Math.min(1, share));
    const end = s < 0 ? neg : pos;
    const weight = Math.abs(s) ** 0.8;
    return `rgb(${mid.map((c, i) => Math.round(c + (end[i] - c) * weight)).join(" ")})`;
  };
}

/** The same scale for Plotly. */
export function divergingScale() {
  return [
    [0, colour("neg")],
    [0.5, colour("surface")],
    [1, colour("pos")],
  ];
}

function channels(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
