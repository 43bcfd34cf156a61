"use strict";
// Draws the charts that the page carries as JSON. Colours in them are names of the page's own custom properties, so
// that a change of the colour scheme, or paper, is a redraw with the same data.
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const options = { displayModeBar: false, responsive: false };
  const style = () => getComputedStyle(document.documentElement);

  // Replaces "var(--name)" by that property's value wherever a chart has it.
  const coloured = (value, from) => {
    if (typeof value === "string") {
      const name = /^var\((--[a-z0-9-]+)\)$/.exec(value);
      return name ? from.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map(item => coloured(item, from));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, from)]));
  };

  // The names that the reader has switched off in the section around a chart.
  const hiddenAround = place => {
    const section = place.closest("section");
    const off = section.querySelectorAll('.legend button[aria-pressed="false"]');
    return new Set([...off].map(button => button.dataset.name));
  };

  const draw = chart => {
    const place = document.getElementById(chart.id);
    const hidden = hiddenAround(place);
    const { data, layout } = coloured({ data: chart.data, layout: chart.layout }, style());
    for (const trace of data) trace.visible = !(trace.meta ?? []).some(name => hidden.has(name));
    layout.width = place.clientWidth;
    layout.height = place.clientHeight;
    Plotly.react(place, data, layout, options);
  };
  const drawAll = () => charts.forEach(draw);

  document.querySelectorAll(".legend button").forEach(button => button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
    const section = button.closest("section");
    charts.filter(chart => section.contains(document.getElementById(chart.id))).forEach(draw);
  }));

  let width = window.innerWidth;
  let waiting = 0;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  const printing = on => { document.documentElement.classList.toggle("printing", on); drawAll(); };
  window.addEventListener("beforeprint", () => printing(true));
  window.addEventListener("afterprint", () => printing(false));
  drawAll();
})();
