// What pages are made of: elements, figures as text, command lines, tables, forms.
import { command, hasToken } from "./api.js";

/** An element: h("p", { class: "soft" }, "text", child). Properties that begin with "on" are listeners. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const three = (value) => {
  const size = Math.abs(value);
  const digits = size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: 0 });
};
/** The load that a run offered: closed loops by their requests in flight, open ones by their rate. */
export const offered = (run) => run.arrivals_per_sec == null ? `depth ${run.iodepth}` : `${number(run.arrivals_per_sec)} requests/s`;

export const number = (value) => (value === null || value === undefined || Number.isNaN(value) ? "–" : three(value));
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${three(value)} ${units[unit]}`;
}
export function span(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1e3) return `${three(ns)} ns`;
  if (ns < 1e6) return `${three(ns / 1e3)} µs`;
  if (ns < 1e9) return `${three(ns / 1e6)} ms`;
  if (ns < 120e9) return `${three(ns / 1e9)} s`;
  if (ns < 7200e9) return `${three(ns / 60e9)} min`;
  return `${three(ns / 3600e9)} h`;
}
export const percent = (value) => (value === null || value === undefined ? "–" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)} %`);
export const share = (value) => `${(value * 100).toFixed(0)} %`;
export const when = (text) => text.replace("T", " ").replace(/\.\d+Z$/, "");
export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
export const quoted = (text) => (/^[\w.+@=\/,:%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Says something for a few seconds. */
export function say(text) {
  const note = h("p", { class: "note" }, text);
  document.getElementById("notes").append(note);
  setTimeout(() => note.remove(), 4000);
}

/** An error: what, where, what to do. */
export const faultBox = (fault) =>
  h("div", { class: "bad-box", role: "alert" }, h("p", {}, h("b", {}, fault.what ?? String(fault))), fault.where && h("p", { class: "small" }, `Where: ${fault.where}`), fault.what_to_do && h("p", { class: "small" }, `What to do: ${fault.what_to_do}`));

export function complain(fault) {
  const box = faultBox(fault);
  box.append(h("button", { class: "tiny", onclick: () => box.remove() }, "Close"));
  document.getElementById("notes").append(box);
  setTimeout(() => box.remove(), 20000);
}

/** Asks before something that can't be taken back: a dialog that names it and tells what comes of it. It begins on "Cancel", and
Escape cancels, too. True if it is wanted. */
export function confirmed(title, lines, button) {
  return new Promise((resolve) => {
    const close = (answer) => () => dialog.close(answer);
    const dialog = h("dialog", { class: "card", "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
      h("h2", { id: "ask-title" }, title), h("div", { id: "ask-text" }, lines.filter(Boolean).map((line) => h("p", {}, line))),
      h("div", { class: "row" }, h("button", { type: "button", autofocus: true, onclick: close("") }, "Cancel"), h("button", { type: "button", class: "danger", "data-confirm": true, onclick: close("yes") }, button)));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks before a server ends. */
export const confirmedStop = (name) => confirmed(`Stop ${name}?`, ["All that was written is on its members then. Clients that use its volume get errors until it is served again."], "Stop it");

/** The command line that does the same, to be copied. */
export function commandBox(text) {
  const code = h("code", { tabindex: "0" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say("Copied.");
    } catch {
      getSelection().selectAllChildren(code);
      say("Selected: copy it with the keyboard.");
    }
  };
  const box = h("div", { class: "command" }, code, h("button", { type: "button", onclick: copy, "aria-label": "Copy the command line" }, "Copy"));
  // Lines break between words only. Without a command there is nothing to copy.
  box.show = (shown) => {
    code.replaceChildren(...shown.split(/(\s+)/).map((word) => (/\S/.test(word) ? h("span", { class: "word" }, word) : word)));
    box.hidden = shown === "";
  };
  box.show(text);
  return box;
}

export const dataLinks = (...links) => links.map(([name, path]) => h("a", { class: "button tiny", href: path, target: "_blank", rel: "noopener" }, name));
export const tools = (text, ...links) => h("div", { class: "tools" }, commandBox(text), dataLinks(...links));
export const head = (title, lead) => [h("h1", {}, title), h("p", { class: "lead" }, lead)];
export const tile = (value, name) => h("div", { class: "tile" }, h("b", {}, value), h("span", {}, name));
export const pill = (text, kind = "") => h("span", { class: `pill ${kind}` }, text);
export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", {}, title), children);

/** A table whose columns sort: { name, of: row => value, show: row => text or element, right, more }. Narrow windows show the
columns that are `more` when they are asked for. */
export function table(columns, rows, caption) {
  let [sorted, down] = [null, false];
  const body = h("tbody");
  const heads = columns.map((column, index) =>
    h("th", { class: classes(column, "n"), scope: "col" }, column.of ? h("button", { type: "button", onclick: () => sort(index) }, column.name) : column.name),
  );
  const fill = () => {
    const order = sorted === null ? rows : [...rows].sort((a, b) => compare(columns[sorted].of(a), columns[sorted].of(b)) * (down ? -1 : 1));
    body.replaceChildren(...order.map((row) => h("tr", {}, columns.map((column) => h("td", { class: classes(column, "n", column.class) }, (column.show ?? column.of)(row) ?? "")))));
  };
  function sort(index) {
    [down, sorted] = [sorted === index ? !down : Boolean(columns[index].right), index];
    heads.forEach((cell, place) => (place === index ? cell.setAttribute("aria-sort", down ? "descending" : "ascending") : cell.removeAttribute("aria-sort")));
    fill();
  }
  fill();
  const all = h("table", {}, h("thead", {}, h("tr", {}, heads)), body);
  const more = columns.some((column) => column.more) && h("button", { class: "tiny narrow", type: "button", "aria-pressed": "false", onclick: () => more.setAttribute("aria-pressed", String(all.classList.toggle("all"))) }, "All columns");
  return h("div", {}, more, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, all));
}
const classes = (column, right, own) => [column.right && right, column.more && "more", own].filter(Boolean).join(" ");
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true }));

/** A field of a form: { name, label, hint, value, options | type | list, wide, when }. */
export function field(spec) {
  const id = `f-${spec.name}`;
  const hint = spec.hint && h("span", { class: "hint" }, spec.hint);
  if (spec.type === "checkbox") return h("label", { class: `check${spec.wide ? " wide" : ""}` }, h("input", { type: "checkbox", name: spec.name, checked: spec.value }), h("span", {}, spec.label, hint));
  let input;
  if (spec.options) input = h("select", { name: spec.name, id }, spec.options.map((option) => { const [value, text] = Array.isArray(option) ? option : [option, option]; return h("option", { value, selected: value === spec.value }, text); }));
  else if (spec.type === "textarea") input = h("textarea", { name: spec.name, id, spellcheck: "false", rows: spec.rows });
  else input = h("input", { name: spec.name, id, type: spec.type ?? "text", list: spec.list, autocomplete: "off", spellcheck: "false", placeholder: spec.placeholder, required: spec.required, min: spec.min, max: spec.max, step: spec.step });
  if (!spec.options && spec.value !== undefined) input.value = spec.value;
  return h("label", { for: id, class: spec.wide ? "wide" : "" }, spec.label, hint, input);
}

/** The values of a form; empty fields are left out. */
export function values(form) {
  const found = {};
  for (const input of form.elements) {
    if (!input.name || input.closest("[hidden]")) continue;
    if (input.type === "checkbox") input.checked && (found[input.name] = true);
    else if (input.value.trim() !== "") found[input.name] = input.value;
  }
  return found;
}
export const names = (text) => (text ?? "").split(/[\s,]+/).filter(Boolean);

/** A form that shows its command line while it is filled in, and starts it. One that is waiting shows it when asked to. */
export function order({ path, fields, body, button, done, note, isWaiting }) {
  const box = commandBox("");
  const fault = h("div", { class: "wide", "aria-live": "polite" });
  const start = h("button", { class: "main", type: "submit", disabled: !hasToken() }, button);
  const form = h("form", { novalidate: true }, fields.map((spec) => (spec instanceof Node ? spec : field(spec))), h("div", { class: "wide" }, box), fault, h("div", { class: "wide row" }, start, note && h("span", { class: "soft small" }, note)));
  let [timer, asked] = [0, 0];
  const preview = async () => {
    const mine = ++asked;
    if (!hasToken()) return box.show("open the whole address that the studio printed, with its token");
    try {
      const text = await command(path(values(form)), body(values(form)));
      if (mine === asked) box.show(text), fault.replaceChildren();
    } catch (error) {
      if (mine === asked) fault.replaceChildren(faultBox(error));
    }
  };
  const later = () => { clearTimeout(timer); timer = setTimeout(preview, 150); };
  form.addEventListener("input", later);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    try {
      const { post } = await import("./api.js");
      await done(await post(path(values(form)), body(values(form))));
      fault.replaceChildren();
    } catch (error) {
      fault.replaceChildren(faultBox(error));
    }
    start.disabled = !hasToken();
  });
  form.preview = later;
  if (!isWaiting) preview();
  return form;
}

export const fileList = (files, id = "files") => h("datalist", { id }, files.map((file) => h("option", { value: file.name }, bytes(file.size_bytes))));
