// Plan: needs in, ranked arrays out, with what they cost, what they survive, and why.
import { get } from "../api.js";
import { tradeoff } from "../chart.js";
import { bytes, card, dataLinks, h, head, number, order, pill, span, table } from "../ui.js";
import { jobCard, result } from "../jobs.js";

const NUMBERS = ["survive", "iops", "mib_per_sec", "mean_iops", "years", "growth", "keep_degraded", "loss_per_year", "slots", "rack_units", "power", "budget", "simulations", "top"];

const SHOWN_FOR = { best: "best", nearest: "nearest", level: "best of another level", drives: "best of other drives", controller: "best of another controller", cheapest: "takes least", space: "most space", fastest: "fastest", tail: "shortest tail", safest: "least loss", longest: "longest life", power: "least power", next: "next" };

export async function show() {
  const [{ workloads }, { entries }, { jobs }] = await Promise.all([get("/api/workloads"), get("/api/catalogue"), get("/api/jobs")]);
  // What is on sale first: the newest; software has no year, nor have classes of drives, which nobody sells.
  const year = (entry) => Number(entry.figures.find((figure) => figure.key === "year")?.value ?? (entry.kind === "drive" ? 0 : Infinity));
  const newest = (a, b) => Math.sign(year(b) - year(a)) || 0;
  const choices = (kind) => [["", "any"], ...entries.filter((entry) => entry.kind === kind).sort(newest).map((entry) => [entry.id, entry.name])];
  const list = h("div", { id: "jobs" });
  const add = (job) => {
    list.querySelector(`[data-job="${job.id}"]`)?.remove();
    list.prepend(jobCard(job, null, planned));
  };
  jobs.filter((job) => job.kind === "plan").reverse().slice(-3).forEach(add);
  const form = order({
    path: () => "/api/plan", button: "Plan", done: add, note: "Takes a minute or a few: what arithmetic leaves is simulated.",
    fields: [
      { name: "app", label: "Application", options: workloads.map((one) => [one.name, one.title]), value: "storagebench-database" },
      { name: "usable", label: "Usable capacity", value: "20TB" }, { name: "growth", label: "Growth in a year, %", hint: "over the years below", type: "number", min: "1", max: "1000" },
      { name: "survive", label: "Survives", hint: "failed members, whichever they are", type: "number", min: "0", max: "4", value: "1" },
      { name: "iops", label: "Requests per second", hint: "at least, at its peaks", type: "number", min: "1", value: "20000" }, { name: "mib_per_sec", label: "MiB per second", hint: "at least: backups, recorders, checkpoints", type: "number", min: "1" }, { name: "mean_response", label: "Mean latency", hint: "at most", placeholder: "500us" }, { name: "bound", label: "Latency", hint: "a bound from above", placeholder: "p99<=2ms", value: "p99<=2ms" },
      { name: "years", label: "Drives last, years", type: "number", min: "1", max: "50", value: "5" }, { name: "written_per_day", label: "Written in a day", hint: "by the host, on average", value: "2TB" }, { name: "mean_iops", label: "Requests per second on average", hint: "instead of what is written in a day", type: "number", min: "1" },
      { name: "keep_degraded", label: "Left with a drive missing, %", hint: "of the requests needed, and while rebuilding", type: "number", min: "1", max: "100" }, { name: "loss_per_year", label: "Data loss in a year, % at most", hint: "any data, be it a block; else 1", type: "number", min: "0.000001", max: "100", step: "any" }, { name: "goal", label: "The best is", options: [["", "the cheapest, where a rate is needed"], ["cheapest", "the cheapest"], ["fastest", "the fastest"]] },
      { name: "kinds", label: "Kinds of drives", options: [["", "any"], ["nvme", "NVMe"], ["sas-ssd", "SAS flash"], ["sata-ssd", "SATA flash"], ["hdd", "disks"], ["nvme,sas-ssd,sata-ssd", "any flash"]] }, { name: "levels", label: "Levels", hint: "5,6,10", placeholder: "any" },
      { name: "drive", label: "Drives", options: choices("drive") }, { name: "controller", label: "Controller", options: choices("controller") }, { name: "members", label: "Members", hint: "24, or 8..24", placeholder: "any" },
      { name: "have", label: "What is there", hint: "8 x samsung-pm9a3-7680,perc-h755n", placeholder: "nothing" }, { name: "era", label: "Sold in", hint: "2017.., or any", placeholder: "2017.." },
      { name: "slots", label: "Places for drives", type: "number", min: "1", max: "128", value: "24" }, { name: "rack_units", label: "Rack units at most", type: "number", min: "1" }, { name: "power", label: "Watts at most", type: "number", min: "1" },
      { name: "prices", label: "Price file", hint: "in the folder; docs/planning.md has its form", placeholder: "none" }, { name: "budget", label: "Budget", hint: "needs a price file", type: "number", min: "1" },
      { name: "simulations", label: "Arrays to simulate at most", hint: "else 10 seconds of them", type: "number", min: "1", max: "10000" }, { name: "top", label: "Arrays to show", type: "number", min: "1", max: "50", value: "5" }],
    body: (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, NUMBERS.includes(name) ? Number(value) : value])),
  });
  return [head("Plan", "Which array serves an application best: every array that the catalogue's parts make is looked at, what can fit is simulated, and the best are ranked with the reason."), card("Needs", form), list];
}

async function planned(job, place) {
  if (job.state !== "done") return;
  const plan = await result(job.id);
  const worst = (performances) => [performances].flat().reduce((least, one) => (!least || one.iops < least.iops ? one : least), null);
  const rows = plan.top.map((one, index) => ({ ...one, rank: index + 1, main: worst(one.performance), ill: worst(one.degraded), mended: worst(one.rebuilding) }));
  const margin = (value) => (value === null || value === undefined ? null : pill(`${value >= 0 ? "+" : "−"}${Math.abs(value * 100).toFixed(0)} %`, value >= 0 ? "good" : "bad"));
  const life = (row) => row.drive_life.filter(Boolean).reduce((least, one) => (least === null || one.years < least ? one.years : least), null);
  // Without prices: by usual ratios of prices, beside the first.
  const isPriced = plan.effort === "cost";
  const effort = isPriced ? "cost" : "assumed cost, TB of disk";
  const cost = (row) => (isPriced ? row.cost : row.assumed_cost / plan.top[0].assumed_cost);
  const points = plan.simulated_arrays.filter(({ point }) => point.effort !== null).map(({ array, performance, point }) => ({ x: point.effort, y: worst(performance)?.iops, isBest: point.is_efficient, keeps: point.keeps_needs, text: `${array}\n${number(point.effort)} ${effort}, ${number(worst(performance)?.iops)} requests/s\n${point.keeps_needs ? "keeps all needs" : "misses a need"}` }));
  place.append(
    h("p", {}, h("b", {}, `${number(plan.candidates)} arrays looked at, ${number(plan.kept)} could fit, ${number(plan.runs_simulated)} simulated.`), " ", dataLinks(["Plan (JSON)", `/api/jobs/${job.id}/result`])),
    ...plan.relaxations.map((one) => h("p", { class: "warn-box" }, `Nothing fits. Something would with ${one.need} at ${number(one.to)} instead of ${number(one.from)}.`)),
    table([
      { name: "Rank", more: true, of: (row) => row.rank, right: true },
      { name: "Array", class: "array", of: (row) => row.array, show: (row) => [h("b", {}, row.array), h("div", { class: "small soft" }, row.settings_text), row.shown_for.length > 0 && h("div", { class: "small" }, row.shown_for.map((role) => SHOWN_FOR[role] ?? role).join(", ")), row.adds && h("div", { class: "small" }, `to add: ${row.adds}`)] },
      { name: "Needs", of: (row) => row.keeps_needs, show: (row) => pill(row.keeps_needs ? "kept" : "missed", row.keeps_needs ? "good" : "bad") },
      { name: "Requests/s", of: (row) => row.main?.iops, show: (row) => [number(row.main?.iops), " ", margin(row.margins.throughput)], right: true },
      { name: "Mean", of: (row) => row.main?.lat_ns_mean, show: (row) => span(row.main?.lat_ns_mean), right: true },
      { name: "p99", of: (row) => row.main?.lat_ns_p99, show: (row) => [span(row.main?.lat_ns_p99), " ", margin(row.margins.latency)], right: true },
      { name: "Years", of: (row) => life(row), show: (row) => [number(life(row)), " ", margin(row.margins.life)], right: true },
      { name: "Degraded", more: true, of: (row) => row.ill?.iops, show: (row) => number(row.ill?.iops), right: true },
      { name: "Rebuilding", more: true, of: (row) => row.mended?.iops, show: (row) => number(row.mended?.iops), right: true },
      { name: "Rebuild", more: true, of: (row) => row.rebuild_hours, show: (row) => (row.rebuild_hours ? span(row.rebuild_hours * 3600e9) : "–"), right: true },
      { name: "Loss in a year", more: true, of: (row) => row.risk?.per_year, show: (row) => (row.risk ? row.risk.per_year.toExponential(1) : "–"), right: true },
      { name: "Usable", more: true, of: (row) => row.usable_bytes, show: (row) => bytes(row.usable_bytes), right: true },
      { name: "Cost", more: true, of: cost, show: (row) => (isPriced ? number(row.cost) : `~${cost(row).toFixed(2)} ×`), right: true }], rows, "Ranked arrays"),
    h("div", { class: "two" }, card("What more costs", tradeoff({ points, x: effort, y: "requests/s" })), card("Why", rows.map((row) => [h("p", {}, h("b", {}, `${row.rank}. ${row.array}`)), h("ul", {}, row.reason.split("\n").map((line) => h("li", {}, line)))]))),
    ...(plan.alternatives.length === 0 ? [] : [card("Why not another", table([
      { name: "Instead", of: (row) => row.name, show: (row) => h("b", {}, row.name) },
      { name: "Nearest", of: (row) => row.array ?? "", show: (row) => row.array ?? "–" },
      { name: "Requests/s", of: (row) => row.performance?.iops, show: (row) => number(row.performance?.iops), right: true },
      { name: "p99", of: (row) => row.performance?.lat_ns_p99, show: (row) => span(row.performance?.lat_ns_p99), right: true },
      { name: "Why not", of: (row) => row.verdict, show: (row) => row.verdict }], plan.alternatives, "Why not another array"))]),
  );
}
