// Home: what can be done here, what is going on, and what was found last.
import { get } from "../api.js";
import { card, dataLinks, h, head, number, offered, pill, span, table, when } from "../ui.js";

const RUNS = 5;

export async function show() {
  const [{ runs }, { arrays }, { papers }, { jobs }] = await Promise.all([get(`/api/runs?limit=${RUNS}`), get("/api/arrays"), get("/api/papers"), get("/api/jobs")]);
  const running = jobs.filter((job) => job.state === "running");
  const figures = papers.reduce((sum, paper) => sum + paper.figures, 0);
  const way = (page, title, text, ...foot) => h("a", { class: "card", href: `#/${page}` }, h("h2", {}, title), h("p", {}, text), foot.some(Boolean) && h("p", { class: "foot row" }, ...foot));
  const count = (kinds, word) => {
    const found = running.filter((job) => kinds.includes(job.kind)).length;
    return found > 0 && pill(`${found} ${word}`, "on");
  };
  return [
    head("Which storage array serves an application best?", "Plan one of hardware on sale, measure the storage that is here, run an array, and see how far to trust the figures."),
    h("div", { class: "grid ways" },
      way("plan", "Plan", "Needs in, ranked arrays out: what to buy, why, and what more would cost.", count(["plan"], "running")),
      way("live", "Measure", "Put a load on a file and watch what the storage under it does.", count(["measure", "soak"], "running")),
      way("arrays", "Arrays", "Make a RAID array on files, serve it, fail a member, watch it rebuild.", arrays.length > 0 && pill(`${arrays.length} served`, "on")),
      way("papers", "Papers", `${number(figures)} published figures of real arrays beside what the models predict.`)),
    card("Last runs", runs.length === 0
      ? h("p", { class: "empty" }, "There are none yet. ", h("a", { href: "#/live" }, "Measure something"), ": the form is filled in, and takes half a minute.")
      : [table([
        { name: "Run", of: (run) => run.id, show: (run) => h("a", { href: `#/runs/${run.id}`, "aria-label": `Run ${run.id}` }, run.id), right: true },
        { name: "Started (UTC)", of: (run) => run.started_at, show: (run) => when(run.started_at), class: "key", more: true },
        { name: "Target", of: (run) => run.target },
        { name: "Workload", of: (run) => run.workload, more: true },
        { name: "Load", of: (run) => run.arrivals_per_sec ?? run.iodepth, show: offered, right: true, more: true },
        { name: "Requests/s", of: (run) => run.iops, show: (run) => number(run.iops), right: true },
        { name: "Mean", of: (run) => run.lat_ns_mean, show: (run) => span(run.lat_ns_mean), right: true }], runs, "Last runs"),
      h("p", {}, h("a", { href: "#/runs" }, "All runs"))], dataLinks(["JSON", `/api/runs?limit=${RUNS}`])),
  ];
}
