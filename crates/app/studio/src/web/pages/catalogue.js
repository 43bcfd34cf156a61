// The catalogue: all modelled hardware, every figure with its source.
import { Fault, get } from "../api.js";
import { h, head, pill, table, tools } from "../ui.js";

export async function show([chosen]) {
  const { entries } = await get("/api/catalogue");
  if (chosen && !entries.some((entry) => entry.id === chosen)) throw new Fault({ status: 404, what: `The catalogue has no ‘${chosen}’.`, where: "catalogue", what_to_do: "search for it on the page of the catalogue" });
  const kinds = [...new Set(entries.map((entry) => entry.kind))];
  const figures = entries.reduce((sum, entry) => sum + entry.figures.length, 0);
  const search = h("input", { type: "search", placeholder: "st3600057ss, cache, data sheet …", id: "search" });
  const kind = h("select", {}, h("option", { value: "" }, "All kinds"), kinds.map((name) => h("option", { value: name }, name)));
  const found = h("div", { id: "entries" });
  const fill = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (entry) => {
      const text = `${entry.kind} ${entry.id} ${entry.name} ${entry.figures.map((figure) => `${figure.key} ${figure.source}`).join(" ")}`.toLowerCase();
      return (!kind.value || entry.kind === kind.value) && words.every((word) => text.includes(word));
    };
    const shown = entries.filter(fits);
    found.replaceChildren(h("p", { class: "soft small" }, `${shown.length} of ${entries.length} entries`), ...shown.map(one));
  };
  const one = (entry) => {
    const details = h("details", { class: "card", id: `entry-${entry.id}`, open: entry.id === chosen }, h("summary", {}, h("span", { class: "row inline" }, pill(entry.kind, "on"), h("b", {}, entry.name), h("code", { class: "soft" }, entry.id), h("span", { class: "soft small" }, `${entry.figures.length} figures`))));
    const fillIn = () => {
      if (!details.open || details.children.length > 1) return;
      details.append(tools(`raidlab catalog ${entry.id}`), table([
        { name: "Figure", of: (figure) => figure.key, show: (figure) => h("code", {}, figure.key), class: "key" },
        { name: "Value", of: (figure) => figure.value, class: "n" },
        { name: "Source", of: (figure) => figure.source, class: "source", more: true }], entry.figures, `Figures of ${entry.name}`));
    };
    details.addEventListener("toggle", fillIn);
    fillIn();
    return details;
  };
  search.addEventListener("input", fill);
  kind.addEventListener("change", fill);
  fill();
  return [head("Catalogue", `${entries.length} pieces of hardware and software that raidlab models, with ${figures} figures. Each figure says where it comes from: a data sheet, a measurement, a fit, or an estimate.`), tools("raidlab catalog", ["JSON", "/api/catalogue"], ["CSV", "/api/catalogue.csv"]), h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Search", search), h("label", {}, "Kind", kind)), found];
}
