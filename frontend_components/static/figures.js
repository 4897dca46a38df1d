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

export const PARTS = /^train\/reward_(?!mean$|std$|failed_)(.+)$/;
const FAILED = /^train\/reward_failed_(.+)$/;

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
  const present = series.filter(([metric]) => curves.values[metric]);
  return {
    data: present.flatMap(([metric, name], i) => line(curves, metric, name, colours[i % colours.length], { weight })),
    layout: {
      showlegend: series.length > 1,
      margin: { l: 48, r: 14, t: series.length > 1 ? 30 : 10, b: 32 },
      xaxis: stepAxis(curves.steps),
      ...layout,
    },
  };
}

/** Samples that each reward could not judge; a step that does not name a reward has none. */
export function failedFigure(curves, weight) {
  const names = Object.keys(curves.values).filter((name) => FAILED.test(name));
  const counts = Object.fromEntries(names.map((name) => [name, curves.values[name].map((count) => count ?? 0)]));
  const series = names.map((name) => [name, FAILED.exec(name)[1]]);
  return linesFigure({ ...curves, values: counts }, series, weight, { showlegend: true, yaxis: { rangemode: "tozero" } });
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
      yaxis: { tickformat: ".7~g" },
      yaxis2: {
        overlaying: "y",
        tickmode: "auto",
        zeroline: false,
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

/** Ratings as points with intervals, one row a model, the best on top; a line at the base. */
export function ratingFigure(models, base) {
  const names = models.map((model) => model.label);
  const values = models.map((model) => model.rating);
  const line = values[models.findIndex((model) => model.key === base)]?.value ?? 1000;
  return {
    data: [
      {
        type: "scatter",
        mode: "markers",
        x: values.map((rating) => rating.value),
        y: names,
        error_x: {
          type: "data",
          symmetric: false,
          array: values.map((rating) => rating.high - rating.value),
          arrayminus: values.map((rating) => rating.value - rating.low),
          color: colour("accent"),
          thickness: 2,
          width: 6,
        },
        marker: { size: 10, color: colour("accent") },
        customdata: values.map((rating) => [rating.low, rating.high]),
        hovertemplate: "%{x:.0f}, %{customdata[0]:.0f} to %{customdata[1]:.0f}<extra></extra>",
      },
    ],
    layout: {
      hovermode: "closest",
      xaxis: { title: { text: "rating" } },
      yaxis: { autorange: "reversed", tickfont: { size: 13, color: colour("ink") }, showgrid: false },
      margin: { l: 90, r: 24, t: 12, b: 44 },
      shapes: [
        {
          type: "line",
          x0: line,
          x1: line,
          yref: "paper",
          y0: 0,
          y1: 1,
          line: { color: colour("edge-strong"), width: 1, dash: "dot" },
        },
      ],
    },
  };
}

/** How often each reward chose as people did, over the mean gap of its scores. One half is chance. */
export function calibrationFigure(rewards) {
  const colours = lines();
  return {
    data: rewards.map(({ reward, calibration }, i) => ({
      type: "scatter",
      mode: "lines+markers",
      name: reward,
      x: calibration.map((bin) => (bin.low_gap + bin.high_gap) / 2),
      y: calibration.map((bin) => bin.agree.value),
      error_y: {
        type: "data",
        symmetric: false,
        array: calibration.map((bin) => bin.agree.high - bin.agree.value),
        arrayminus: calibration.map((bin) => bin.agree.value - bin.agree.low),
        color: faded(colours[i % colours.length], 0.5),
        thickness: 1,
        width: 3,
      },
      line: { color: colours[i % colours.length], width: 2 },
      marker: { size: 6 },
      hovertemplate: "%{y:.0%}",
    })),
    layout: {
      showlegend: true,
      hovermode: "closest",
      xaxis: { title: { text: "gap between the two scores" }, rangemode: "tozero" },
      yaxis: { tickformat: ".0%", range: [0, 1.02], title: { text: "people chose the higher" } },
      margin: { l: 60, r: 16, t: 34, b: 44 },
      shapes: [
        {
          type: "line",
          xref: "paper",
          x0: 0,
          x1: 1,
          y0: 0.5,
          y1: 0.5,
          line: { color: colour("edge-strong"), width: 1, dash: "dot" },
        },
      ],
    },
  };
}

/** Win rate against the base (right axis, with intervals) and mean rewards (left axis) over the steps of a run. */
export function optimisationFigure(models, base) {
  const steps = models.map((model) => model.step);
  const [, ...others] = lines();
  const won = models.map((model) => (model.key === base ? { value: 0.5, low: 0.5, high: 0.5 } : model.over_base));
  const rewards = [...new Set(models.flatMap((model) => Object.keys(model.mean_scores)))];
  return {
    data: [
      ...rewards.map((reward, i) => ({
        type: "scatter",
        mode: "lines+markers",
        name: reward,
        x: steps,
        y: models.map((model) => model.mean_scores[reward] ?? null),
        line: { color: others[i % others.length], width: 2, dash: "dot" },
        hovertemplate: "%{y:.3~f}",
      })),
      {
        type: "scatter",
        mode: "lines+markers",
        name: "people's win rate",
        x: steps,
        y: won.map((rate) => rate.value),
        yaxis: "y2",
        error_y: {
          type: "data",
          symmetric: false,
          array: won.map((rate) => rate.high - rate.value),
          arrayminus: won.map((rate) => rate.value - rate.low),
          color: colour("accent"),
          thickness: 1.5,
          width: 4,
        },
        line: { color: colour("accent"), width: 3 },
        marker: { size: 8 },
        hovertemplate: "%{y:.0%}",
      },
    ],
    layout: {
      showlegend: true,
      xaxis: { title: { text: "training step" }, tickvals: steps },
      yaxis: { title: { text: "mean reward" } },
      yaxis2: {
        overlaying: "y",
        tickmode: "auto",
        zeroline: false,
        side: "right",
        range: [0, 1],
        tickformat: ".0%",
        showgrid: false,
        title: { text: "win rate against the base" },
      },
      margin: { l: 56, r: 60, t: 34, b: 44 },
    },
  };
}
