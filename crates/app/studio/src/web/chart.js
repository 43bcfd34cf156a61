// Charts as SVG: lines, points and bars. Marks can be reached with the keyboard and say what they are.
import { h, number } from "./ui.js";

const NS = "http://www.w3.org/2000/svg";
function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

let tip;
function showTip(text, x, y) {
  tip ??= document.body.appendChild(h("div", { class: "tip", hidden: true }));
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(4, y - box.height - 10)}px`;
}
const hideTip = () => tip && (tip.hidden = true);
function telling(mark, text) {
  mark.append(s("title", {}, text));
  mark.setAttribute("tabindex", "0");
  mark.addEventListener("pointerenter", (event) => showTip(text, event.clientX, event.clientY));
  mark.addEventListener("pointerleave", hideTip);
  mark.addEventListener("focus", () => { const box = mark.getBoundingClientRect(); showTip(text, box.right, box.top); });
  mark.addEventListener("blur", hideTip);
  return mark;
}

/** Round numbers from low to high, about so many. */
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((found) => found >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}
function logTicks(low, high, isNarrow) {
  const found = [];
  const decades = Math.log10(high / low);
  const factors = decades > 3 || (isNarrow && decades > 1.2) ? [1] : decades > 1.4 || isNarrow ? [1, 3] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const factor of factors) {
      const at = factor * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
    }
  return found;
}
function scale(low, high, from, to, isLog) {
  const turn = isLog ? Math.log10 : (value) => value;
  const [a, b] = [turn(low), turn(high)];
  const place = (value) => from + ((turn(value) - a) / (b - a || 1)) * (to - from);
  place.ticks = isLog ? logTicks(low, high, Math.abs(to - from) < 320 && to > from) : ticks(low, high, Math.max(2, Math.abs(to - from) / (from > to ? 45 : 90)));
  return place;
}

/** Text keeps its size on narrow screens: charts are drawn as wide as there is room. */
const room = () => (innerWidth < 560 ? Math.max(300, innerWidth - 60) : 640);

function frame({ title, x, y, width = room(), height = 300, left = width < 500 ? 72 : 86 }) {
  const area = { left, right: width - 14, top: title ? 30 : 14, bottom: height - 44 };
  const px = scale(x.low, x.high, area.left, area.right, x.log);
  const py = scale(y.low, y.high, area.bottom, area.top, y.log);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title ?? `${y.name} over ${x.name}` });
  if (title) svg.append(s("text", { class: "title", x: 0, y: 14 }, title));
  for (const at of py.ticks) {
    svg.append(s("line", { class: "gridline", x1: area.left, x2: area.right, y1: py(at), y2: py(at) }));
    svg.append(s("text", { x: area.left - 7, y: py(at) + 4, "text-anchor": "end" }, (y.format ?? number)(at)));
  }
  for (const at of px.ticks) svg.append(s("text", { x: px(at), y: area.bottom + 17, "text-anchor": "middle" }, (x.format ?? number)(at)));
  svg.append(s("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
  svg.append(s("text", { x: (area.left + area.right) / 2, y: height - 8, "text-anchor": "middle" }, x.name));
  svg.append(s("text", { x: 13, y: (area.top + area.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${(area.top + area.bottom) / 2})` }, y.name));
  return { svg, px, py, area };
}

export const legend = (entries) => h("ul", { class: "legend" }, entries.map((name, index) => h("li", {}, h("i", { class: `k${index % 8}` }), name)));

/** Lines: series = [{ name, points: [[x, y], ...] }]. */
export function lines({ title, series, x, y, width, height, marks = false }) {
  const all = series.flatMap((one) => one.points).filter(([, value]) => Number.isFinite(value) && (!y.log || value > 0));
  if (all.length === 0) return h("p", { class: "empty" }, "There is nothing to draw yet.");
  const range = (index, axis) => {
    const found = all.map((point) => point[index]);
    const [low, high] = [Math.min(...found), Math.max(...found)];
    if (axis.log) return { low: low * 0.9, high: high * 1.1, ...axis };
    const bottom = axis.fromZero === false ? low : Math.min(0, low);
    return { low: bottom, high: high > bottom ? high + (index ? (high - bottom) * 0.06 : 0) : bottom + 1, ...axis };
  };
  const { svg, px, py } = frame({ title, x: range(0, { fromZero: false, ...x }), y: range(1, y), width, height });
  series.forEach((one, index) => {
    const points = one.points.filter(([, value]) => Number.isFinite(value) && (!y.log || value > 0));
    const path = points.map(([a, b], place) => `${place ? "L" : "M"}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join("");
    svg.append(s("path", { class: `line k${index % 8}`, d: path }));
    if (marks || points.length < 40) for (const [a, b] of points) svg.append(telling(s("circle", { class: `dot mark k${index % 8}`, cx: px(a), cy: py(b), r: 3.5 }), `${one.name}\n${(x.format ?? number)(a)} ${x.name}\n${(y.format ?? number)(b)} ${y.name}`));
  });
  return h("figure", { class: "figure" }, svg, series.length > 1 ? legend(series.map((one) => one.name)) : null);
}

/** Published against predicted, both on logarithmic axes; on the line they agree. */
export function agreement({ title, points, unit, width = room(), height = 420 }) {
  const found = points.flatMap((point) => [point.published, point.predicted]).filter((value) => value > 0);
  if (found.length === 0) return h("p", { class: "empty" }, "There is nothing to draw yet.");
  const [low, high] = [Math.min(...found) * 0.8, Math.max(...found) * 1.25];
  const axis = (name) => ({ name: `${name}, ${unit}`, low, high, log: true });
  const { svg, px, py, area } = frame({ title, x: axis("published"), y: axis("predicted"), width, height });
  const clip = `c${Math.random().toString(36).slice(2)}`;
  svg.append(s("clipPath", { id: clip }, s("rect", { x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top })));
  const corner = (x, factor) => `${px(x)},${py(x * factor)}`;
  svg.append(s("polygon", { class: "band", "clip-path": `url(#${clip})`, points: [corner(low, 1.1), corner(high, 1.1), corner(high, 0.9), corner(low, 0.9)].join(" ") }));
  svg.append(s("line", { class: "ideal", x1: px(low), y1: py(low), x2: px(high), y2: py(high) }));
  for (const point of points.filter((one) => one.published > 0 && one.predicted > 0)) {
    const mark = s("circle", { class: `dot mark k0${point.fitted ? " hollow" : ""}`, cx: px(point.published), cy: py(point.predicted), r: 5 });
    svg.append(telling(mark, point.text));
  }
  return h("figure", { class: "figure" }, svg, h("p", { class: "small soft" }, "On the dashed line both agree; the band is ± 10 %. Hollow points were used to fit the model."));
}

/** Bars beside each other: rows = [{ name, values: [number, ...] }], a colour per value. */
export function bars({ title, rows, names, unit, format = number, width = room() }) {
  const most = Math.max(0, ...rows.flatMap((row) => row.values.filter(Number.isFinite)));
  if (most === 0) return h("p", { class: "empty" }, "There is nothing to draw yet.");
  const [thick, gap, left] = [15, 6, 8];
  const step = (row) => row.values.length * (thick + 2) + gap + 16;
  const height = rows.reduce((sum, row) => sum + step(row), 30);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title });
  svg.append(s("text", { class: "title", x: 0, y: 14 }, unit ? `${title}, ${unit}` : title));
  let top = 32;
  for (const row of rows) {
    svg.append(s("text", { x: 0, y: top + 8 }, row.name));
    row.values.forEach((value, index) => {
      const y = top + 14 + index * (thick + 2);
      const length = Number.isFinite(value) ? Math.max(1, (value / most) * (width - left - 90)) : 0;
      svg.append(telling(s("rect", { class: `col mark k${(row.colour ?? index) % 8}`, x: 0, y, width: length, height: thick, rx: 2 }), `${row.name}${names?.[index] ? `\n${names[index]}` : ""}\n${format(value)} ${unit ?? ""}`));
      svg.append(s("text", { x: length + 6, y: y + thick - 3 }, Number.isFinite(value) ? format(value) : "–"));
    });
    top += step(row);
  }
  return h("figure", { class: "figure" }, svg, names?.length > 1 ? legend(names) : null);
}

/** What is gained for more effort: points = [{ x, y, isBest, keeps, text }]; the best are joined. */
export function tradeoff({ points, x, y, width = room(), height = 340 }) {
  const found = points.filter((point) => Number.isFinite(point.x) && Number.isFinite(point.y));
  if (found.length === 0) return h("p", { class: "empty" }, "There is nothing to draw yet.");
  const most = (of) => Math.max(...found.map(of)) * 1.08;
  const { svg, px, py } = frame({ x: { name: x, low: 0, high: most((point) => point.x) }, y: { name: y, low: 0, high: most((point) => point.y) }, width, height });
  const best = found.filter((point) => point.isBest).sort((a, b) => a.x - b.x);
  svg.append(s("path", { class: "line k1", d: best.map((point, place) => `${place ? "L" : "M"}${px(point.x)} ${py(point.y)}`).join("") }));
  for (const point of found) svg.append(telling(s("circle", { class: `dot mark ${point.isBest ? "k1" : "k0"}${point.keeps ? "" : " hollow"}`, cx: px(point.x), cy: py(point.y), r: point.isBest ? 7 : 5 }), point.text));
  return h("figure", { class: "figure" }, svg, h("p", { class: "small soft" }, "Joined: no other is as fast for less. Hollow points miss a need."));
}
