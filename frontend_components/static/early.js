// Light or dark is decided before the first paint, and held against Gradio, which follows the system alone.
(() => {
  const asked = new URLSearchParams(location.search).get("__theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem("espalier-theme");
  const wanted = () => asked || chosen() || (system.matches ? "dark" : "light");
  const apply = () => {
    const theme = wanted();
    if (document.documentElement.dataset.theme !== theme) {
      document.documentElement.dataset.theme = theme;
      dispatchEvent(new CustomEvent("espalier-theme", { detail: theme }));
    }
    if (document.body && document.body.classList.contains("dark") !== (theme === "dark"))
      document.body.classList.toggle("dark", theme === "dark");
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  addEventListener("DOMContentLoaded", () => {
    apply();
    new MutationObserver(apply).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  });
  window.espalierTheme = (theme) => {
    localStorage.setItem("espalier-theme", theme);
    apply();
  };
})();
