// Finished runs: the list, one run, and several beside each other.
import { get } from "../api.js";
import { bars, lines } from "../chart.js";
import { bytes, card, h, head, number, offered, pill, quoted, span, table, tile, tools, when } from "../ui.js";

export async function show([id, ids]) {
  const several = (ids ?? "").split(",").filter(Boolean).map(Number);
  if (id === "compare") return compare(several);
  return id && id !== "choose" ? one(id) : list(several);
}

const dbOf = (db) => (db === "raidlab.sqlite" ? "" : ` --db ${quoted(db)}`);

async function list(selected) {
  const { runs, db } = await get("/api/runs?limit=1000");
  const lead = "Every finished run is kept, whichever command made it. Choose some and compare them.";
  if (runs.length === 0) return [head("Runs", lead), tools(`raidlab runs${dbOf(db)}`, ["JSON", "/api/runs"]), card(null, h("p", { class: "empty" }, `There are no runs in ${db} yet. `, h("a", { href: "#/live" }, "Measure something"), ", or run a study."))];
  const chosen = new Set(selected.filter((id) => runs.some((run) => run.id === id)));
  const link = h("button", { class: "main", type: "button", onclick: () => (location.hash = `#/runs/compare/${inOrder()}`) });
  const inOrder = () => [...chosen].sort((a, b) => a - b).join(",");
  const csv = h("a", { class: "button tiny" }, "CSV of the chosen");
  // What is chosen stands in the address, so that Back comes to it again.
  const tell = () => {
    link.textContent = chosen.size > 1 ? `Compare ${chosen.size} runs` : "Choose two or more to compare";
    link.disabled = chosen.size < 2;
    csv.hidden = chosen.size === 0;
    csv.href = `/api/runs.csv?ids=${inOrder()}`;
  };
  const choose = (run, box) => {
    box.checked ? chosen.add(run.id) : chosen.delete(run.id);
    history.replaceState(null, "", chosen.size > 0 ? `#/runs/choose/${inOrder()}` : "#/runs");
    tell();
  };
  const search = h("input", { type: "search", placeholder: "target, workload, title …", "aria-label": "Filter runs" });
  const place = h("div");
  const fill = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (run) => words.every((word) => `${run.id} ${run.title} ${run.world} ${run.target} ${run.workload} ${(run.tags ?? []).join(" ")}`.toLowerCase().includes(word));
    place.replaceChildren(table([
      { name: h("span", { role: "img", "aria-label": "Choose", title: "Choose" }, "✓"), show: (run) => { const box = h("input", { type: "checkbox", "aria-label": `Choose run ${run.id}`, checked: chosen.has(run.id), onchange: () => choose(run, box) }); return box; } },
      { name: "Run", of: (run) => run.id, show: (run) => h("a", { href: `#/runs/${run.id}`, "aria-label": `Run ${run.id}` }, run.id), right: true },
      { name: "Started (UTC)", of: (run) => run.started_at, show: (run) => when(run.started_at), class: "key", more: true },
      { name: "World", of: (run) => run.world, show: (run) => pill(run.world, run.world === "simulated" ? "on" : ""), more: true },
      { name: "Target", of: (run) => run.target, class: "part" },
      { name: "Workload", of: (run) => run.workload, more: true },
      { name: "Tags", of: (run) => (run.tags ?? []).join(", "), show: (run) => (run.tags ?? []).map((tag) => pill(tag)), more: true },
      { name: "Load", of: (run) => run.arrivals_per_sec ?? run.iodepth, show: offered, right: true, more: true },
      { name: "Requests/s", of: (run) => run.iops, show: (run) => number(run.iops), right: true },
      { name: "MB/s", of: (run) => run.mb_per_s, show: (run) => number(run.mb_per_s), right: true, more: true },
      { name: "Mean", of: (run) => run.lat_ns_mean, show: (run) => span(run.lat_ns_mean), right: true },
      { name: "99 %", of: (run) => run.lat_ns_p99, show: (run) => span(run.lat_ns_p99), right: true, more: true }], runs.filter(fits), "Runs"));
  };
  search.addEventListener("input", fill);
  fill();
  tell();
  return [head("Runs", lead), tools(`raidlab runs${dbOf(db)}`, ["JSON", "/api/runs?limit=1000"]), card(null, h("div", { class: "row between" }, h("label", { class: "grow" }, "Filter", search), h("div", { class: "row" }, link, csv)), place)];
}

const label = (run) => `${run.id}: ${run.result.target}, ${run.result.workload}, ${offered(run.result)}`;

function latencyChart(runs) {
  const nines = (pct) => -Math.log10(1 - Math.min(pct, 99.9995) / 100);
  const series = runs.map((run) => ({ name: label(run), points: (run.result.total.lat_curve ?? []).filter((point) => point.pct < 100).map((point) => [nines(point.pct), point.lat_ns]) }));
  const shown = (value) => `${(100 * (1 - 10 ** -value)).toFixed(Math.max(0, Math.ceil(value) - 2))} %`;
  return lines({ title: "Latency by percentile", series, x: { name: "of requests are faster", format: shown, low: 0 }, y: { name: "latency", format: span, log: true } });
}

function overTime(runs, pick, title, name, format) {
  const series = runs.filter((run) => run.result.series).map((run) => {
    const { interval_ns, last_ns, total } = run.result.series;
    const last = total.requests.length - 1;
    return { name: label(run), points: total.requests.map((_, index) => [((index + 0.5) * interval_ns) / 1e9, pick(total, index, (index === last ? last_ns : interval_ns) / 1e9)]) };
  });
  return lines({ title, series, x: { name: "seconds of the measured window", low: 0 }, y: { name, format } });
}
const rateChart = (runs) => overTime(runs, (total, index, seconds) => total.requests[index] / seconds, "Requests over time", "requests/s");
const slowChart = (runs) => overTime(runs, (total, index) => total.lat_ns_p99[index], "99th percentile over time", "latency", span);

async function one(id) {
  const run = await get(`/api/runs/${encodeURIComponent(id)}`);
  const { total, read, write } = run.result;
  const direction = ([name, found]) => found.requests > 0 && { name, ...found };
  const directions = [["Reads", read], ["Writes", write], ["All", total]].map(direction).filter(Boolean);
  const cell = (name, of, format = span, more = false) => ({ name, of, show: (row) => format(of(row)), right: true, more });
  const facts = Object.entries(run.result.settings ?? {}).map(([name, value]) => ({ name, value }));
  const neck = run.result.bottleneck;
  const gain = (value) => `${value.toFixed(1)} %`;
  const brings = neck?.judged_by === "latency" ? "less mean latency" : "more throughput";
  const gains = neck && [...(neck.twice_iodepth_gain_pct == null ? [] : [{ part: "requests in flight, twice as many", gain_pct: neck.twice_iodepth_gain_pct }]), ...neck.gains.map((it) => ({ ...it, part: `${it.part}, ${neck.faster_pct} % faster or larger` }))];
  const times = run.result.times;
  const share = (row, kind) => (row[`${kind}waiting_ns_mean`] + row[`${kind}service_ns_mean`]) / times.stations.reduce((sum, it) => sum + it[`${kind}waiting_ns_mean`] + it[`${kind}service_ns_mean`], 0);
  const shareCell = (name, kind) => ({ name, of: (row) => share(row, kind), show: (row) => gain(100 * share(row, kind)), right: true });
  const machine = Object.entries(run.environment ?? {}).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => ({ name, value: String(value) }));
  const pairs = (rows, caption) => table([{ name: "Name", of: (row) => row.name, class: "key" }, { name: "Value", of: (row) => row.value }], rows, caption);
  return [
    head(`Run ${run.id}: ${run.result.workload}`, `${run.result.target}, ${offered(run.result)}. From ‘${run.title}’, ${when(run.started_at)} UTC.`),
    tools(`raidlab show ${run.id}`, ["JSON", `/api/runs/${run.id}`], ["CSV", `/api/runs.csv?ids=${run.id}`]),
    h("div", { class: "tiles" }, tile(number(total.iops), "requests per second"), tile(number(total.bytes_per_sec / 1e6), "MB per second"), tile(span(total.lat_ns_mean), "mean latency"), tile(span(total.lat_ns_p99), "99th percentile"), tile(number(total.requests), "requests"), total.errors > 0 && tile(number(total.errors), "errors")),
    h("div", { class: "two" }, card(null, latencyChart([run])), run.result.series && [card(null, rateChart([run])), card(null, slowChart([run]))]),
    neck && card(`Bottleneck: ${neck.name}`, table([{ name: "Changed alone", of: (row) => row.part, class: "key" }, { name: `Brings so much ${brings}`, of: (row) => row.gain_pct, show: (row) => gain(row.gain_pct), right: true }], gains, "Gains")),
    times && card("Where the time goes", table([{ name: "Station", of: (row) => row.station, class: "key" }, cell("Waiting", (row) => row.waiting_ns_mean, span, true), cell("Service", (row) => row.service_ns_mean, span, true), shareCell("Share", ""), cell("Slowest 1 %: waiting", (row) => row.slowest_waiting_ns_mean, span, true), cell("Slowest 1 %: service", (row) => row.slowest_service_ns_mean, span, true), shareCell("Slowest 1 %: share", "slowest_")], times.stations, "Where the time goes")),
    card("Directions", table([{ name: "Direction", of: (row) => row.name }, cell("Requests", (row) => row.requests, number, true), cell("Requests/s", (row) => row.iops, number), cell("MB/s", (row) => row.bytes_per_sec / 1e6, number, true), cell("Mean", (row) => row.lat_ns_mean), cell("50 %", (row) => row.lat_ns_p50, span, true), cell("90 %", (row) => row.lat_ns_p90, span, true), cell("99 %", (row) => row.lat_ns_p99), cell("99.9 %", (row) => row.lat_ns_p999, span, true), cell("Max", (row) => row.lat_ns_max, span, true)], directions, "Reads and writes")),
    h("div", { class: "two" }, card("Settings in effect", pairs([{ name: "seed", value: String(run.result.seed) }, { name: "window", value: span(run.result.window_ns) }, ...facts], "Settings")), card("Machine", pairs(machine, "Machine"))),
  ];
}

async function compare(ids) {
  const runs = await Promise.all(ids.map((id) => get(`/api/runs/${encodeURIComponent(id)}`)));
  if (runs.length === 0) return [head("Compare", "Choose runs on the page before this one."), h("a", { href: "#/runs" }, "To the runs")];
  const total = (run) => run.result.total;
  const first = total(runs[0]);
  const beside = (of, format, better) => ({
    of: (run) => of(total(run)), right: true,
    show: (run) => [format(of(total(run))), run !== runs[0] && of(first) > 0 ? h("span", { class: "small soft" }, ` ×${number(of(total(run)) / of(first))}`) : ""],
    better,
  });
  const columns = [
    { name: "Run", of: (run) => run.id, show: (run) => h("a", { href: `#/runs/${run.id}`, "aria-label": `Run ${run.id}` }, run.id), right: true },
    { name: "Target", of: (run) => run.result.target }, { name: "Workload", of: (run) => run.result.workload, more: true }, { name: "Load", of: (run) => run.result.arrivals_per_sec ?? run.result.iodepth, show: (run) => offered(run.result), right: true, more: true },
    { name: "Requests/s", ...beside((it) => it.iops, number) }, { name: "MB/s", ...beside((it) => it.bytes_per_sec / 1e6, number), more: true },
    { name: "Mean", ...beside((it) => it.lat_ns_mean, span) }, { name: "99 %", ...beside((it) => it.lat_ns_p99, span), more: true }, { name: "99.9 %", ...beside((it) => it.lat_ns_p999, span), more: true }, { name: "Errors", of: (run) => total(run).errors, right: true, more: true }];
  const chart = (title, of, unit, format) => card(null, bars({ title, unit, format, rows: runs.map((run, index) => ({ name: label(run), values: [of(total(run))], colour: index })) }));
  return [
    head(`Compare runs ${ids.join(", ")}`, "Ratios (×) are to the first one."),
    h("p", {}, h("a", { href: `#/runs/choose/${ids.join(",")}` }, "Choose others")),
    tools(`raidlab compare ${ids.join(" ")}`, ["CSV", `/api/runs.csv?ids=${ids.join(",")}`], ...ids.map((id) => [`JSON ${id}`, `/api/runs/${id}`])),
    card(null, table(columns, runs, "Compared runs")),
    h("div", { class: "two" }, chart("Requests per second", (it) => it.iops), chart("Mean latency", (it) => it.lat_ns_mean, undefined, span), card(null, latencyChart(runs)), card(null, rateChart(runs))),
  ];
}
