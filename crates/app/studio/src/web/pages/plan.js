// Plan: needs in, ranked arrays out, with what they cost, what they survive, and why.
import { get } from "../api.js";
import { tradeoff } from "../chart.js";
import { bytes, card, dataLinks, h, head, number, order, pill, span, table } from "../ui.js";
import { jobCard, result } from "../jobs.js";

export async function show() {
  const [{ workloads }, { entries }, { jobs }] = await Promise.all([get("/api/workloads"), get("/api/catalogue"), get("/api/jobs")]);
  const choices = (kind) => [["", "any"], ...entries.filter((entry) => entry.kind === kind).map((entry) => [entry.id, entry.name])];
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
      { name: "usable", label: "Usable capacity", value: "1TB" }, { name: "survive", label: "Survives", hint: "failed members, whichever they are", type: "number", min: "0", max: "4", value: "1" },
      { name: "iops", label: "Requests per second", hint: "at least", type: "number", min: "1", value: "1500" }, { name: "mean_response", label: "Mean latency", hint: "at most", placeholder: "20ms" },
      { name: "slots", label: "Places for drives", type: "number", min: "1", max: "128", value: "24" },
      { name: "drive", label: "Drives", options: choices("drive"), value: "st3600057ss" }, { name: "controller", label: "Controller", options: choices("controller"), value: "perc-h800" },
      { name: "prices", label: "Price file", hint: "in the folder; docs/planning.md has its form", placeholder: "none" }, { name: "budget", label: "Budget", hint: "needs a price file", type: "number", min: "1" },
      { name: "simulations", label: "Arrays to simulate at most", type: "number", min: "1", max: "10000", value: "8" }, { name: "top", label: "Arrays to tell of", type: "number", min: "1", max: "50", value: "5" }],
    body: (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, ["survive", "iops", "slots", "budget", "simulations", "top"].includes(name) ? Number(value) : value])),
  });
  return [head("Plan", "Which array serves an application best: every array that the catalogue's parts make is looked at, what can fit is simulated, and the best are ranked with the reason."), card("Needs", form), list];
}

async function planned(job, place) {
  if (job.state !== "done") return;
  const plan = await result(job.id);
  const worst = (performances) => [performances].flat().reduce((least, one) => (!least || one.iops < least.iops ? one : least), null);
  const rows = plan.top.map((one, index) => ({ ...one, rank: index + 1, main: worst(one.performance), ill: worst(one.degraded), mended: worst(one.rebuilding) }));
  const margin = (value) => (value === null || value === undefined ? null : pill(`${value >= 0 ? "+" : "−"}${Math.abs(value * 100).toFixed(0)} %`, value >= 0 ? "good" : "bad"));
  const effort = plan.effort === "cost" ? "cost" : "drives";
  const points = plan.simulated_arrays.filter(({ point }) => point.effort !== null).map(({ array, performance, point }) => ({ x: point.effort, y: worst(performance)?.iops, isBest: point.is_efficient, keeps: point.keeps_needs, text: `${array}\n${number(point.effort)} ${effort}, ${number(worst(performance)?.iops)} requests/s\n${point.keeps_needs ? "keeps all needs" : "misses a need"}` }));
  place.append(
    h("p", {}, h("b", {}, `${number(plan.candidates)} arrays looked at, ${number(plan.kept)} could fit, ${number(plan.runs_simulated)} simulated.`), " ", dataLinks(["Plan (JSON)", `/api/jobs/${job.id}/result`])),
    ...plan.relaxations.map((one) => h("p", { class: "warn-box" }, `Nothing fits. Something would with ${one.need} at ${number(one.to)} instead of ${number(one.from)}.`)),
    table([
      { name: "Rank", more: true, of: (row) => row.rank, right: true },
      { name: "Array", of: (row) => row.array, show: (row) => [h("b", {}, row.array), h("div", { class: "small soft" }, row.settings_text)] },
      { name: "Needs", of: (row) => row.keeps_needs, show: (row) => pill(row.keeps_needs ? "kept" : "missed", row.keeps_needs ? "good" : "bad") },
      { name: "Requests/s", of: (row) => row.main?.iops, show: (row) => [number(row.main?.iops), " ", margin(row.margins.throughput)], right: true },
      { name: "Mean", of: (row) => row.main?.lat_ns_mean, show: (row) => span(row.main?.lat_ns_mean), right: true },
      { name: "Degraded", more: true, of: (row) => row.ill?.iops, show: (row) => number(row.ill?.iops), right: true },
      { name: "Rebuilding", more: true, of: (row) => row.mended?.iops, show: (row) => number(row.mended?.iops), right: true },
      { name: "Rebuild", more: true, of: (row) => row.rebuild_hours, show: (row) => (row.rebuild_hours ? span(row.rebuild_hours * 3600e9) : "–"), right: true },
      { name: "Loss in a year", more: true, of: (row) => row.risk?.per_year, show: (row) => (row.risk ? row.risk.per_year.toExponential(1) : "–"), right: true },
      { name: "Usable", more: true, of: (row) => row.usable_bytes, show: (row) => bytes(row.usable_bytes), right: true },
      { name: "Cost", more: true, of: (row) => row.cost, show: (row) => number(row.cost), right: true }], rows, "Ranked arrays"),
    h("div", { class: "two" }, card("What more costs", tradeoff({ points, x: effort, y: "requests/s" })), card("Why", rows.map((row) => h("p", {}, h("b", {}, `${row.rank}. `), row.reason)))),
  );
}
