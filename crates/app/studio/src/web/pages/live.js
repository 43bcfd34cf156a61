// Live: measurements and soaks of files that are named here, watched while they run.
import { get } from "../api.js";
import { lines } from "../chart.js";
import { bytes, card, fileList, h, head, number, order, tile, dataLinks } from "../ui.js";
import { jobCard, result } from "../jobs.js";

// A file that is not there is laid out; one that raidlab laid out is used again.
const EXAMPLE = { target: "raidlab-test.bin", size: "256MiB" };
const SIZE = { name: "size", label: "Lay out", hint: "size of a new file; leave it out for one that is there", placeholder: "256MiB" };
const DESTROY = { name: "destroy_data", label: "Destroy the data of", hint: "name the file once more to have it written over", placeholder: "nothing" };

export async function show([kind]) {
  const [{ files }, { workloads }, { jobs }] = await Promise.all([get("/api/studio"), get("/api/workloads"), get("/api/jobs")]);
  const list = h("div", { id: "jobs", "aria-live": "off" });
  const add = (job) => list.prepend(jobCard(job, job.kind === "soak" ? soaking : measuring, job.kind === "measure" ? measured : undefined));
  jobs.filter((job) => ["measure", "soak"].includes(job.kind)).reverse().forEach(add);
  const target = { name: "target", label: "File", hint: "in the studio's folder", list: "files", value: EXAMPLE.target, required: true };
  const measure = () => ownDepth(workloads, order({
    path: () => "/api/measure", button: "Start the measurement", done: add,
    fields: [target, { name: "workload", label: "Workload", options: workloads.map((one) => [one.name, `${one.title}${one.writes ? "" : " (reads only)"}`]), value: "storagebench-database" }, { name: "iodepth", label: "Requests in flight", hint: "8, or 1,8,64, or 1..64", value: "8" }, { name: "run", label: "For", hint: "measured window: 10s, 2m", value: "10s" }, { ...SIZE, value: EXAMPLE.size }, { name: "block_size", label: "Length of requests", hint: "instead of the workload's", placeholder: "4KiB" }, { name: "bound", label: "Bound", placeholder: "p99<=20ms" }, DESTROY, { name: "remove", type: "checkbox", label: "Remove the file afterwards if it was laid out" }],
    body: (values) => values,
  }));
  const soak = () => order({
    path: () => "/api/soak", button: "Start the soak", done: add,
    fields: [target, { name: "time", label: "For", hint: "30s, 2h; without it until it is stopped", value: "30s" }, { name: "passes", label: "Passes at most", type: "number", min: "1" }, { ...SIZE, value: EXAMPLE.size }, { name: "rate", label: "At most, each second", placeholder: "100MiB" }, DESTROY, { name: "write", type: "checkbox", label: "Write stamped data first" }, { name: "rewrite", type: "checkbox", label: "Write anew after every pass" }],
    body: (values) => ({ ...values, ...(values.passes ? { passes: Number(values.passes) } : {}) }),
  });
  const isSoak = kind === "soak";
  const tab = (name, title, current) => h("a", { class: "button", href: `#/live${name}`, "aria-current": current ? "true" : null }, title);
  return [
    head(isSoak ? "Soak" : "Measure", "Start a measurement or a soak on a file, watch it, stop it. What is finished is kept in the results file."),
    fileList(files),
    card(null, h("div", { class: "row tabs" }, tab("", "Measure", !isSoak), tab("/soak", "Soak", isSoak)), h("p", { class: "soft small" }, isSoak ? "Reads the same data again and again and compares every bit." : "Puts a load on the file and measures what it serves, second by second."), isSoak ? soak() : measure()),
    h("div", { class: "row between" }, h("h2", {}, "Jobs"), dataLinks(["JSON", "/api/jobs"])), list,
  ];
}

/** A form whose requests in flight can be given only where the workload has no number of its own. */
function ownDepth(workloads, form) {
  const { workload, iodepth } = form.elements;
  workload.addEventListener("change", () => {
    const { own_iodepth: isOwn } = workloads.find((one) => one.name === workload.value) ?? {};
    if (isOwn === iodepth.disabled) return;
    [iodepth.disabled, iodepth.value, iodepth.placeholder] = [isOwn, isOwn ? "" : "8", isOwn ? "the workload's own" : ""];
    form.preview();
  });
  return form;
}

/** Rates between ticks that are half a second apart or more, of one run after the other. */
function rates(ticks, name, clock) {
  const points = [];
  let before = null;
  for (const tick of ticks) {
    if (tick[name] === undefined) continue;
    if (!before || tick[name] < before[name] || clock(tick) < clock(before)) { before = tick; continue; }
    const seconds = clock(tick) - clock(before);
    if (seconds < 0.45) continue;
    points.push([tick.at_ms / 1000, (tick[name] - before[name]) / seconds]);
    before = tick;
  }
  return points;
}

function measuring(job, ticks) {
  const window = ticks.filter((tick) => tick.requests !== undefined && !tick.in_ramp);
  const last = ticks.at(-1);
  const clock = (tick) => tick.elapsed_ns / 1e9;
  const requests = rates(window, "requests", clock);
  const moved = rates(window, "moved_bytes", clock).map(([at, value]) => [at, value / 1e6]);
  const latency = (name) => window.filter((tick, at) => tick[name] !== undefined && tick[name] !== window[at - 1]?.[name]).map((tick) => [tick.at_ms / 1000, tick[name] / 1e6]);
  const latencies = [["half of them", "lat_ns_p50"], ["99 %", "lat_ns_p99"], ["99.9 %", "lat_ns_p999"]].map(([name, figure]) => ({ name, points: latency(figure) })).filter(({ points }) => points.length > 0);
  if (requests.length === 0) return [h("p", { class: "soft small" }, last?.in_ramp ? "Warming up: nothing is counted yet." : "")];
  return [
    h("div", { class: "tiles" }, tile(number(requests.at(-1)[1]), "requests per second"), tile(number(moved.at(-1)[1]), "MB per second"), tile(number(last?.in_flight), "in flight"), tile(number(last?.errors), "errors")),
    h("div", { class: "two" }, lines({ title: "Requests per second", series: [{ name: "requests", points: requests }], x: { name: "seconds since the start" }, y: { name: "requests/s" }, height: 230 }), lines({ title: "MB per second", series: [{ name: "MB", points: moved }], x: { name: "seconds since the start" }, y: { name: "MB/s" }, height: 230 })),
    ...(latencies.length === 0 ? [] : [lines({ title: "Latency within which so many requests of each second were answered, ms", series: latencies, x: { name: "seconds since the start" }, y: { name: "ms", log: true }, height: 230 })]),
  ];
}

async function measured(job, place) {
  if (!job.has_result) return;
  const { runs = [] } = await result(job.id);
  const best = runs.at(-1);
  if (best) place.prepend(h("p", {}, h("b", {}, `${number(best.total.iops)} requests/s, ${number(best.total.lat_ns_mean / 1e6)} ms on average`), runs.length > 1 ? `, the last of ${runs.length} runs. ` : ". ", h("a", { href: "#/runs" }, "To the runs"), " · ", h("a", { href: `/api/jobs/${job.id}/result`, target: "_blank", rel: "noopener" }, "data")));
}

function soaking(job, ticks) {
  const last = ticks.at(-1);
  const read = rates(ticks, "read_bytes", (tick) => tick.at_ms / 1000).map(([at, value]) => [at, value / 1e6]);
  if (last?.read_bytes === undefined) return [];
  return [
    h("div", { class: "tiles" }, tile(bytes(last.read_bytes), "read and compared"), tile(number(last.passes), "passes done"), tile(number(last.faults), "faults")),
    lines({ title: "Read and compared, MB per second", series: [{ name: "MB", points: read }], x: { name: "seconds since the start" }, y: { name: "MB/s" }, height: 230 }),
  ];
}
