// A line of a few numbers, small enough for a table cell.

const SVG = "http://www.w3.org/2000/svg";

export function sparkline(values, width = 110, height = 26) {
  const known = values.filter((value) => value !== null);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("spark");
  if (known.length < 2) return svg;
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const points = known.map((value, i) => [
    2 + (i / (known.length - 1)) * (width - 7),
    height - 4 - ((value - low) / span) * (height - 8),
  ]);
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.map((point) => point.join(",")).join(" "));
  const end = document.createElementNS(SVG, "circle");
  end.setAttribute("cx", points.at(-1)[0]);
  end.setAttribute("cy", points.at(-1)[1]);
  end.setAttribute("r", 2.6);
  svg.append(line, end);
  return svg;
}
