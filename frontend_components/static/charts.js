// Plotly, loaded once; each chart is mounted once and then only updated, so zoom and hover survive.
import { at } from "./api.js";
import { eachFrame, el } from "./dom.js";
import { colour, lines } from "./palette.js";

let loading = null;

function plotly() {
  loading ??= new Promise((ready, failed) => {
    document.head.append(
      el("script", {
        src: at("ui/plotly.min.js"),
        onload: () => ready(window.Plotly),
        onerror: () => failed(new Error("plotly.min.js did not load")),
      }),
    );
  });
  return loading;
}

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };

export class Chart {
  constructor(height, label) {
    this.plot = el("div.plot", { style: { height: height + "px" } });
    this.element = el("figure.chart", { role: "img", "aria-label": label }, this.plot);
    this.update = eachFrame(() => this.react());
    addEventListener("espalier-theme", () => this.figure && this.update());
  }

  /** figure: a function that returns {data, layout}; called again when the colours change. */
  draw(figure) {
    this.figure = figure;
    this.update();
  }

  async react() {
    const library = await plotly();
    if (!this.plot.isConnected) return;
    const { data, layout } = this.figure();
    this.element.toggleAttribute("data-empty", !data.some((trace) => trace.x?.length));
    await library.react(
      this.plot,
      data,
      { ...frame(), ...layout, xaxis: { ...axis(), ...layout.xaxis }, yaxis: { ...axis(), ...layout.yaxis } },
      CONFIG,
    );
  }
}

function frame() {
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: colour("sans"), size: 12, color: colour("quiet") },
    margin: { l: 52, r: 16, t: 10, b: 38 },
    colorway: lines(),
    hovermode: "x unified",
    uirevision: "kept",
    showlegend: false,
    hoverlabel: {
      bgcolor: colour("surface"),
      bordercolor: colour("edge-strong"),
      font: { color: colour("ink"), size: 12 },
    },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12, color: colour("ink") } },
  };
}

function axis() {
  return {
    gridcolor: colour("edge"),
    linecolor: colour("edge-strong"),
    zeroline: false,
    ticks: "",
    automargin: true,
    title: { font: { size: 12 } },
  };
}
