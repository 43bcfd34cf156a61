"use strict";
// The charts are in the page as they are. This switches lines on and off, moves the points of a chart to other axes, and folds all
// but the answer where the page would be long.
(() => {
  if (matchMedia("(max-width: 34rem)").matches) {
    document.querySelectorAll("main > section:not(:first-of-type)").forEach(section => {
      const heading = section.querySelector("h2");
      const [details, summary] = ["details", "summary"].map(name => document.createElement(name));
      details.className = "more fold";
      heading.replaceWith(details);
      details.append(summary, ...[...section.childNodes].filter(node => node !== details));
      summary.append(heading);
    });
    addEventListener("beforeprint", () => document.querySelectorAll(".fold").forEach(details => { details.open = true; }));
  }

  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  document.querySelectorAll(".legend button").forEach(button => button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
    const section = button.closest("section");
    const off = [...section.querySelectorAll('.legend button[aria-pressed="false"]')];
    const hidden = new Set(off.map(other => other.dataset.name));
    section.querySelectorAll("[data-names]").forEach(mark => {
      mark.toggleAttribute("hidden", mark.dataset.names.split("\n").some(name => hidden.has(name)));
    });
  }));

  document.querySelectorAll(".explorer").forEach(place => {
    const { box: [left, right, top, bottom], quantities } = JSON.parse(place.querySelector("script").textContent);
    const lists = [...place.querySelectorAll("select")];
    const lines = [...place.querySelectorAll("svg .line")];
    const along = share => left + share * (right - left);
    const up = share => bottom - share * (bottom - top);
    const grid = { stroke: "var(--grid)" };

    const draw = () => {
      const [x, y] = lists.map(list => quantities[list.selectedIndex]);
      lines.forEach((line, index) => {
        let path = "";
        let pen = "M";
        line.querySelectorAll(".point").forEach((point, at) => {
          const [share, height] = [x.places[index][at], y.places[index][at]];
          const known = share !== null && height !== null;
          point.toggleAttribute("hidden", !known);
          if (!known) { pen = "M"; return; }
          point.setAttribute("transform", `translate(${along(share)} ${up(height)})`);
          path += `${pen}${along(share)} ${up(height)}`;
          pen = "L";
        });
        line.querySelector(".stroke").setAttribute("d", path);
      });
      const ticks = (name, places, tick) => place.querySelector(`svg .${name}`).replaceChildren(...places.flatMap(tick));
      ticks("x-axis", x.ticks, ([share, text]) => [
        svg("path", { d: `M${along(share)} ${top}V${bottom}`, ...grid }),
        svg("text", { x: along(share), y: bottom + 18, "text-anchor": "middle" }, text),
      ]);
      ticks("y-axis", y.ticks, ([share, text]) => [
        svg("path", { d: `M${left} ${up(share)}H${right}`, ...grid }),
        svg("text", { x: left - 7, y: up(share) + 4, "text-anchor": "end" }, text),
      ]);
      place.querySelector("svg .x-title").textContent = x.title;
      place.querySelector("svg .y-title").textContent = y.title;
    };
    lists.forEach(list => list.addEventListener("change", draw));
    place.querySelector(".axes").hidden = false;
  });
})();
