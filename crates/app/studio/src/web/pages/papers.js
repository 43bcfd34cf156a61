// Papers: what was published beside what the models predict, table by table, with the errors.
import { Fault, get, hasToken, post } from "../api.js";
import { agreement, bars } from "../chart.js";
import { bytes, card, complain, commandBox, dataLinks, h, head, number, percent, pill, plural, quoted, span, table, tile, tools } from "../ui.js";
import { failureBox, jobCard, result } from "../jobs.js";

export async function show([id, chosen]) {
  return id ? paper(id, chosen) : list();
}

async function list() {
  const { papers } = await get("/api/papers");
  const one = (it) =>
    h("a", { class: "card", href: `#/papers/${it.id}` }, h("h2", {}, it.title), it.authors && h("p", {}, it.authors), h("p", { class: "soft small" }, it.publisher), h("p", { class: "foot row" }, it.figures > 0 && pill(plural(it.figures, "figure"), "on"), it.claims > 0 && pill(plural(it.claims, "claim"), "on"), it.tables.length > 0 && h("span", { class: "soft small" }, plural(it.tables.length, "table"))));
  return [head("Papers", "Published measurements of real arrays, and what raidlab's models predict for them. How far to trust a model is how far it is off here."), tools("raidlab reproduce list", ["JSON", "/api/papers"]), h("div", { class: "grid" }, papers.map(one))];
}

async function paper(id, chosen) {
  const it = await get(`/api/papers/${encodeURIComponent(id)}`);
  if (chosen !== undefined && !it.tables.includes(chosen)) throw new Fault({ status: 404, what: `This paper has no table ‘${chosen}’.`, where: it.title, what_to_do: `take one of ${it.tables.join(", ")}` });
  const current = chosen ?? null;
  const rows = it.rows.filter((row) => !current || row.table === current);
  const line = `raidlab reproduce ${id}${current ? ` --table ${quoted(current)}` : ""}`;
  const outcome = h("div", { id: "outcome" });
  const select = h("select", { "aria-label": "Table", onchange: () => (location.hash = `#/papers/${id}${select.value ? `/${encodeURIComponent(select.value)}` : ""}`) }, h("option", { value: "" }, `All ${it.tables.length} tables`), it.tables.map((name) => h("option", { value: name, selected: name === current }, name)));
  const start = h("button", { class: "main", type: "button", id: "predict", disabled: !hasToken(), onclick: () => predict() }, current ? `Predict ${current}` : "Predict all");
  const paced = h("input", { type: "checkbox", id: "bottleneck", disabled: !hasToken() });
  async function predict() {
    start.disabled = true;
    try {
      follow(await post(`/api/papers/${id}/predict`, { ...(current ? { table: current } : {}), bottleneck: paced.checked }));
    } catch (fault) {
      complain(fault);
      start.disabled = false;
    }
  }
  function follow(job) {
    start.disabled = true;
    outcome.replaceChildren(jobCard({ ...job, subject: current ? `${it.title}, ${current}` : it.title }, null, async (now) => {
      start.disabled = !hasToken();
      if (now.state !== "done") return outcome.append(now.state === "failed" ? "" : failureBox(now));
      const found = await result(now.id);
      outcome.replaceChildren(...compared(found, it.rows, now));
    }));
  }
  const { jobs } = await get("/api/jobs");
  const subject = current ? `${id}, ${current}` : id;
  const known = jobs.find((job) => job.kind === "reproduce" && job.subject === subject && ["running", "done"].includes(job.state));
  if (known) follow(known);
  else outcome.replaceChildren(card(current ?? "All published figures", publishedTable(rows)));
  return [
    head(current ? `${it.title}: ${current}` : it.title, `${it.source}.`),
    h("div", { class: "tools" }, h("label", { class: "row" }, "Table ", select), h("label", { class: "row" }, paced, " and what sets the pace (longer)"), start, commandBox(line), dataLinks(["JSON", `/api/papers/${id}`], ...(it.figures > 0 ? [["CSV", `/api/papers/${id}/published.csv`]] : []))),
    outcome,
    h("details", { class: "card" }, h("summary", {}, "How it was measured, and what is assumed"), h("h3", {}, "Measured"), it.method.map((text) => h("p", {}, text)), it.assumed.length > 0 && [h("h3", {}, "Assumed"), it.assumed.map((text) => h("p", {}, text))], it.corrections.map((one) => h("p", {}, h("b", {}, `${one.place}, ${one.workload}: `), one.reason))),
  ];
}

// What tells one row from the next: all that the publication says of it.
const LEVELS = { jbod: "JBOD", "-": null };
const isSet = (value, name) => (value === null || value === undefined ? null : `${name} ${value ? "on" : "off"}`);
const join = (...parts) => parts.filter(Boolean).join(", ");
const setup = (row) => join(row.system, row.raid && (row.raid in LEVELS ? LEVELS[row.raid] : `RAID ${row.raid}`), row.drives ? `${row.drives} × ${row.drive || "drive"}` : row.drive, row.volumes && plural(row.volumes, "volume"), row.write_policy, row.read_policy, row.io_policy, isSet(row.disk_cache, "disk cache"), isSet(row.cache_mirroring, "mirroring"), row.filesystem);
const load = (row) => join(row.workload, row.block_bytes && bytes(row.block_bytes), row.queue_depth && `depth ${row.queue_depth}`, row.streams && plural(row.streams, "stream"), row.file_bytes && `files of ${bytes(row.file_bytes)}`, row.response_limit_ns && `at ${span(row.response_limit_ns)}`, row.stroke_pct && `${row.stroke_pct} % of the capacity`);

const COLUMNS = [
  { name: "Table", of: (row) => row.table, class: "key", more: true },
  { name: "Array", of: setup },
  { name: "Load", of: load },
];

function publishedTable(rows) {
  if (rows.length === 0) return h("p", { class: "empty" }, "This paper gives claims instead of figures: predict them to see them.");
  return table([...COLUMNS, { name: "Published", of: (row) => row.published, show: (row) => number(row.published), right: true }, { name: "Unit", of: (row) => row.unit, more: true }, { name: "Note", of: (row) => row.note, class: "small", more: true }], rows, "Published figures");
}

const judged = (error) => pill(percent(error), Math.abs(error) <= 10 ? "good" : Math.abs(error) <= 25 ? "warn" : "bad");

function compared(found, published, job) {
  const known = new Map(published.map((row) => [row.id, row]));
  const pace = (row) => found.configurations?.[row.configuration]?.result?.bottleneck?.name;
  const rows = (found.rows ?? []).map((row) => ({ ...known.get(row.id), ...row, table: row.place, pace: pace(row) }));
  const parts = [];
  const summary = found.summary ?? found.claims?.summary;
  const fresh = found.summary_not_fitted ?? found.claims?.summary_not_fitted;
  parts.push(card("How far off", h("div", { class: "tiles" },
    summary?.rows !== undefined && tile(number(summary.rows), "figures compared"),
    summary?.median_abs_error_pct !== undefined && tile(`${number(summary.median_abs_error_pct)} %`, "median error"),
    summary?.p90_abs_error_pct !== undefined && tile(`${number(summary.p90_abs_error_pct)} %`, "nine of ten are within"),
    fresh?.median_abs_error_pct !== undefined && fresh.median_abs_error_pct !== null && tile(`${number(fresh.median_abs_error_pct)} %`, `median of the ${fresh.rows} not fitted to`)), dataLinks(["Data of this prediction (JSON)", `/api/jobs/${job.id}/result`])));
  const units = [...new Set(rows.map((row) => row.unit))];
  if (rows.length > 0) {
    const text = (row) => `${row.table}: ${setup(row)}\n${load(row)}\npublished ${number(row.published)}, predicted ${number(row.predicted)} (${percent(row.error_pct)})`;
    const charts = units.map((unit) => card(`Published and predicted, ${unit}`, agreement({ points: rows.filter((row) => row.unit === unit).map((row) => ({ ...row, text: text(row) })), unit })));
    const places = (found.places ?? []).map((place) => ({ name: `${place.place}`, values: [place.summary?.median_abs_error_pct ?? NaN], colour: 0 })).filter((row) => Number.isFinite(row.values[0]));
    if (places.length > 1) charts.push(card(null, bars({ title: "Median error by table", rows: places, unit: "%", format: (value) => value.toFixed(1) })));
    parts.push(h("div", { class: "two" }, charts));
    parts.push(card("Figure by figure", table([...COLUMNS,
      { name: "Published", of: (row) => row.published, show: (row) => number(row.published), right: true },
      { name: "Predicted", of: (row) => row.predicted, show: (row) => number(row.predicted), right: true },
      { name: "Error", of: (row) => Math.abs(row.error_pct), show: (row) => judged(row.error_pct), right: true },
      { name: "Unit", of: (row) => row.unit, more: true },
      ...(rows.some((row) => row.pace) ? [{ name: "Bottleneck", of: (row) => row.pace }] : []),
      { name: "Fitted", of: (row) => (row.fitted ? 1 : 0), show: (row) => row.fitted && pill("fitted to"), more: true }], rows, "Published and predicted figures")));
  }
  if (found.claims?.claims) parts.push(card("Claims", claims(found.claims.claims)));
  return parts;
}

function claims(rows) {
  const row = (claim) => claim.row ?? claim;
  return table([
    { name: "Claim", of: (it) => row(it).id },
    { name: "Published", of: (it) => row(it).published, show: (it) => number(row(it).published), right: true },
    { name: "Predicted", of: (it) => row(it).predicted, show: (it) => number(row(it).predicted), right: true },
    { name: "Error", of: (it) => Math.abs(row(it).error_pct ?? 0), show: (it) => (row(it).error_pct === null || row(it).error_pct === undefined ? "–" : judged(row(it).error_pct)), right: true },
    { name: "Verdict", of: (it) => row(it).verdict },
  ], rows, "Claims");
}
