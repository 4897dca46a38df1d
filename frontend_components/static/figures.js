// Arrays in, Plotly figures out. Every figure of the pages is made here.
import { colour, divergingScale, lines } from "./palette.js";

/** Exponential moving average that is unbiased from its first point; gaps (null) stay gaps. weight in [0, 1). */
export function smooth(values, weight) {
  let sum = 0;
  let norm = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

// Steps are whole numbers, also where only a few are shown.
const stepAxis = (steps) => (steps.length > 0 && steps.length <= 8 ? { dtick: 1 } : {});

const faded = (hex, alpha) =>
  hex +
  Math.round(255 * alpha)
    .toString(16)
    .padStart(2, "0");

/** One metric as a smooth line, with the unsmoothed one faint behind it. */
function line(curves, metric, name, hex, { weight = 0, dash = "solid", axis = "y" } = {}) {
  const values = curves.values[metric];
  if (!values) return [];
  const common = {
    x: curves.steps,
    type: "scatter",
    mode: curves.steps.length < 3 ? "lines+markers" : "lines",
    yaxis: axis,
    connectgaps: false,
  };
  const main = {
    ...common,
    y: smooth(values, weight),
    name,
    line: { color: hex, width: 2, dash },
    hovertemplate: "%{y:.4~g}",
  };
  return weight
    ? [
        { ...common, y: values, hoverinfo: "skip", showlegend: false, line: { color: faded(hex, 0.28), width: 1 } },
        main,
      ]
    : [main];
}

export const PARTS = /^train\/reward_(?!mean$|std$)(.+)$/;

/** Mean reward with a band of one standard deviation of the group, and each part of it. */
export function rewardFigure(curves, weight) {
  const mean = curves.values["train/reward_mean"] ?? [];
  const std = curves.values["train/reward_std"] ?? [];
  const [main, ...others] = lines();
  const edge = (sign) =>
    smooth(
      mean.map((m, i) =>
        m === null || m === undefined || std[i] === null || std[i] === undefined ? null : m + sign * std[i],
      ),
      weight,
    );
  const band = {
    x: curves.steps,
    type: "scatter",
    mode: "lines",
    line: { width: 0 },
    hoverinfo: "skip",
    showlegend: false,
  };
  const parts = Object.keys(curves.values).filter((name) => PARTS.test(name));
  return {
    data: [
      { ...band, y: edge(-1) },
      { ...band, y: edge(1), fill: "tonexty", fillcolor: faded(main, 0.13), name: "±1 std", showlegend: true },
      ...line(curves, "train/reward_mean", "reward", main, { weight }),
      ...(parts.length > 1
        ? parts.flatMap((name, i) =>
            line(curves, name, PARTS.exec(name)[1], others[i % others.length], { weight, dash: "dot" }),
          )
        : []),
    ],
    layout: {
      showlegend: true,
      xaxis: { title: { text: "training step" }, ...stepAxis(curves.steps) },
      margin: { l: 52, r: 16, t: 34, b: 42 },
    },
  };
}

/** Several metrics on one axis. series: [[metric, name], ...]. */
export function linesFigure(curves, series, weight, layout = {}) {
  const colours = lines();
  return {
    data: series.flatMap(([metric, name], i) => line(curves, metric, name, colours[i % colours.length], { weight })),
    layout: {
      showlegend: series.length > 1,
      margin: { l: 48, r: 14, t: series.length > 1 ? 30 : 10, b: 32 },
      xaxis: stepAxis(curves.steps),
      ...layout,
    },
  };
}

/** The ratio (left axis) and the share of it that was clipped (right axis). */
export function ratioFigure(curves, weight) {
  const [first, second] = lines();
  return {
    data: [
      ...line(curves, "train/ratio_mean", "mean ratio", first, { weight }),
      ...line(curves, "train/clipfrac", "clipped share", second, { weight, axis: "y2" }),
    ],
    layout: {
      showlegend: true,
      margin: { l: 56, r: 50, t: 30, b: 32 },
      xaxis: stepAxis(curves.steps),
      yaxis: { tickformat: ".4~f" },
      yaxis2: {
        overlaying: "y",
        side: "right",
        rangemode: "tozero",
        tickformat: ".0%",
        showgrid: false,
        color: colour("quiet"),
      },
    },
  };
}

export function timeFigure(curves) {
  const colours = lines();
  const phases = [
    ["time/rollout", "rollout"],
    ["time/reward", "reward"],
    ["time/loss", "loss"],
  ];
  return {
    data: phases
      .filter(([metric]) => curves.values[metric])
      .map(([metric, name], i) => ({
        x: curves.steps,
        y: curves.values[metric],
        name,
        type: "scatter",
        mode: "lines",
        stackgroup: "time",
        line: { width: 0.5, color: colours[i] },
        fillcolor: faded(colours[i], 0.55),
        hovertemplate: "%{y:.2f} s",
      })),
    layout: {
      showlegend: true,
      margin: { l: 48, r: 14, t: 30, b: 32 },
      xaxis: stepAxis(curves.steps),
      yaxis: { ticksuffix: " s", rangemode: "tozero" },
    },
  };
}

/** Rows = depth, columns = training step: the largest advantage of each. */
export function depthMap(rows) {
  const { steps, depths, cell } = grid(rows);
  const z = depths.map((depth) => steps.map((step) => cell(step, depth)?.advantage_max ?? null));
  return {
    data: [
      {
        type: "heatmap",
        x: steps,
        y: depths,
        z,
        colorscale: divergingScale(),
        zmid: 0,
        hovertemplate: "step %{x}, depth %{y}: %{z:.3f}<extra></extra>",
        colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 12 } },
      },
    ],
    layout: {
      hovermode: "closest",
      xaxis: { title: { text: "training step" }, showgrid: false, ...stepAxis(steps) },
      yaxis: { title: { text: "depth" }, autorange: "reversed", showgrid: false },
      margin: { l: 48, r: 10, t: 8, b: 42 },
    },
  };
}

/** Spread of the fused value at each depth: the newest step against the first ones. */
export function depthSpread(rows) {
  const { steps, depths, cell } = grid(rows);
  const shown = [...new Set([steps[0], steps[Math.floor((steps.length - 1) / 2)], steps.at(-1)])].filter(
    (step) => step !== undefined,
  );
  const shades = [colour("edge-strong"), colour("line-3"), colour("line-1")].slice(-shown.length);
  return {
    data: shown.map((step, i) => ({
      x: depths,
      y: depths.map((depth) => cell(step, depth)?.value_std ?? null),
      name: "step " + step,
      type: "scatter",
      mode: "lines+markers",
      line: { color: shades[i], width: 2 },
      marker: { size: 5 },
      hovertemplate: "%{y:.4f}",
    })),
    layout: {
      showlegend: true,
      xaxis: { title: { text: "depth" } },
      yaxis: { rangemode: "tozero" },
      margin: { l: 52, r: 14, t: 34, b: 42 },
    },
  };
}

function grid(rows) {
  const unique = (name) => [...new Set(rows.map((row) => row[name]))].toSorted((a, b) => a - b);
  const cells = new Map(rows.map((row) => [row.step + "/" + row.depth, row]));
  return { steps: unique("step"), depths: unique("depth"), cell: (step, depth) => cells.get(step + "/" + depth) };
}
