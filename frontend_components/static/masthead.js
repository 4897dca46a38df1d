// The line on top of every page: name, places, light and dark.
import { at, page } from "./api.js";
import { el, fill } from "./dom.js";

const PLACES = [
  ["Launch", ""],
  ["Runs", "runs"],
  ["Compare", "compare"],
  ["Reviews", "reviews"],
];

export function mount(element) {
  const here = location.pathname.replace(/\/+$/, "");
  const current = (path) =>
    at(path).replace(/\/+$/, "") === location.origin + here ||
    (path === "runs" && /\/(run|tree)$/.test(here)) ||
    (path === "reviews" && /\/leaderboard$/.test(here));
  const toggle = el("button.plain", { onclick: () => window.espalierTheme(dark() ? "light" : "dark") });
  const dark = () => document.documentElement.dataset.theme === "dark";
  const name = () => {
    toggle.textContent = dark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
  };
  name();
  addEventListener("espalier-theme", name);
  fill(
    element,
    el(
      "div.masthead",
      { role: "banner" },
      el("a.name", { href: page("") }, el("img", { src: at("ui/mark.svg"), alt: "" }), "Espalier"),
      el(
        "nav",
        { "aria-label": "Pages" },
        PLACES.map(([label, path]) =>
          el("a", { href: page(path), "aria-current": current(path) ? "page" : null }, label),
        ),
      ),
      el("div.right", {}, toggle),
    ),
  );
}
