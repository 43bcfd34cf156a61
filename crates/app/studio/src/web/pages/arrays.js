// Arrays: made on files, served, looked at, failed, replaced, rebuilt, checked.
import { get, hasToken, post } from "../api.js";
import { lines } from "../chart.js";
import { bytes, card, complain, confirmed, confirmedStop, dataLinks, fileList, h, head, names, number, order, pill, say, share, span, tile, tools } from "../ui.js";
import { jobCard } from "../jobs.js";

const CONDITIONS = { optimal: "good", starting: "on", resyncing: "warn", undecided: "warn", mismatched: "warn", rebuilding: "warn", degraded: "warn", stopping: "on", "data-lost": "bad", failed: "bad" };
const DEVICES = { "in-sync": "good", rebuilding: "warn", spare: "", missing: "bad", empty: "", lost: "bad" };
const ENDS = { through: "", stopped: "stopped after ", "broken-off": "broken off after " };
const EVERY_MS = 500;

export async function show(_, isShown) {
  const [{ files }, { jobs }, stored] = await Promise.all([get("/api/studio"), get("/api/jobs"), get("/api/arrays/stored")]);
  const place = h("div", { id: "arrays" });
  const list = h("div", { id: "jobs" });
  const add = (job) => list.prepend(jobCard(job, null, ended));
  const ended = (job) => {
    if (job.state === "running" || !["array-create", "array-serve"].includes(job.kind)) return;
    offer((job.kind === "array-create" && job.subject) || null);
  };
  // Arrays that lie in the folder are offered for serving: with the devices that are theirs now, failed ones left out.
  const choice = h("select", { onchange: () => take(choice.value) });
  const left = h("p", { class: "small soft wide" });
  const chooser = h("label", { class: "wide" }, "Array", choice);
  let found = [];
  function take(uuid) {
    const array = found.find((one) => one.array_uuid === uuid);
    chooser.hidden = found.length === 0;
    left.textContent = !array ? "" : [array.refused, ...array.left_out.map((one) => `${one.file} is left out: ${one.reason}`)].filter(Boolean).join(". ");
    if (array) fill(serving, { devices: array.devices.join(" "), socket: `${array.name}.nbd` });
  }
  async function offer(name, answer) {
    try {
      found = (answer ?? (await get("/api/arrays/stored"))).arrays;
    } catch (fault) {
      return complain(fault);
    }
    const current = (name && found.find((one) => one.name === name)?.array_uuid) || found.find((one) => one.array_uuid === choice.value)?.array_uuid || found.at(-1)?.array_uuid;
    choice.replaceChildren(...found.map((one) => h("option", { value: one.array_uuid, selected: one.array_uuid === current }, `${one.name}${one.level ? `, RAID ${one.level}` : ""}`)));
    take(current);
  }
  jobs.filter((job) => job.kind.startsWith("array")).reverse().slice(-6).forEach(add);
  const making = order({
    path: () => "/api/arrays", button: "Make the array", done: add, note: "Nothing that holds data is written over unless it is named for that.",
    fields: [{ name: "name", label: "Name", value: "vault" }, { name: "level", label: "RAID level", options: ["0", "1", "10", "5", "6", "50:2-spans", "60:2-spans"], value: "5" }, { name: "members", label: "Members", hint: "files, made if they are not there", value: "d0 d1 d2 d3", wide: true, list: "files" }, { name: "spares", label: "Hot spares", placeholder: "none" }, { name: "member_size", label: "Size of each member", value: "64MiB" }, { name: "strip_size", label: "Strip", value: "64KiB" }, { name: "metadata", label: "Against crashes", options: [["log", "log: no write hole"], ["bitmap", "bitmap: resync what was being written"], ["resync", "resync everything"], ["none", "nothing"]], value: "log" }, { name: "destroy_data", label: "Destroy the data of", hint: "name files once more to have them written over", placeholder: "nothing" }, { name: "integrity", type: "checkbox", label: "Keep checksums of all blocks" }],
    body: (values) => ({ ...values, members: names(values.members), spares: names(values.spares), destroy_data: names(values.destroy_data) }),
  });
  const serving = order({
    path: () => "/api/arrays/serve", button: "Serve it", done: add, isWaiting: true,
    fields: [chooser, left, { name: "devices", label: "Members and spares", hint: "in any order", placeholder: "d0 d1 d2 d3", wide: true, required: true }, { name: "socket", label: "NBD socket", hint: "a file in the folder", value: "vault.nbd" }, { name: "write_policy", label: "Writes", options: [["write-through", "write-through"], ["write-back", "write-back"]], value: "write-through" }, { name: "cache_size", label: "Cache", placeholder: "as delivered" }, { name: "scan_rate", label: "Rebuild at most, each second", placeholder: "100MiB" }],
    body: (values) => ({ ...values, devices: names(values.devices) }),
  });
  offer(null, stored);
  watch(place, isShown);
  return [
    head("Arrays", "Software arrays on files in the studio's folder, run by the controller that the simulations use."),
    tools("raidlab array status", ["JSON", "/api/arrays"]), fileList(files), place,
    h("div", { class: "two" }, card("Make an array", making), card("Serve an array", serving)), list,
  ];
}

function fill(form, found) {
  for (const [name, value] of Object.entries(found)) form.elements[name].value = value;
  form.preview();
}

/** Shows all arrays that are served, again and again; used by Emulate too. */
export function watch(place, isShown, only) {
  const cards = new Map();
  const look = async () => {
    if (!isShown()) return;
    try {
      const { arrays } = await get("/api/arrays");
      const shown = arrays.filter((array) => !only || only(array));
      for (const array of shown) {
        if (!cards.has(array.name)) cards.set(array.name, arrayCard(array.name));
        cards.get(array.name).update(array);
      }
      for (const name of [...cards.keys()]) if (!shown.some((array) => array.name === name)) cards.delete(name);
      const wanted = shown.map((array) => cards.get(array.name).element);
      if (wanted.length !== place.children.length || wanted.some((element, index) => place.children[index] !== element)) place.replaceChildren(...(wanted.length ? wanted : [h("p", { class: "empty" }, "No array is served.")]));
    } catch (fault) {
      place.replaceChildren(h("p", { class: "empty" }, fault.message));
    }
    setTimeout(look, EVERY_MS);
  };
  look();
}

function arrayCard(name) {
  const [title, tiles, disks, progress, chart, events] = ["div", "div", "ul", "div", "div", "ol"].map((tag) => h(tag));
  title.className = "row"; tiles.className = "tiles"; disks.className = "disks"; events.className = "events";
  const ask = async (body) => {
    try {
      const { message, command } = await post(`/api/arrays/${name}/command`, body);
      say(`${command}: ${message}`);
      return true;
    } catch (fault) {
      complain(fault);
      return false;
    }
  };
  const button = (text, command) => h("button", { class: "tiny", type: "button", disabled: !hasToken(), onclick: () => ask({ command }) }, text);
  let latest = null;
  // What can't be taken back is done when it was confirmed.
  const sure = {
    fail: async (one) => (await confirmed(`Take device ${one.device} out of ${name}?`, afterFailing(latest, one), "Fail it")) && ask({ command: "fail", device: String(one.device) }),
    repair: async () => (await confirmed(`Repair ${name}?`, ["What is wrong by checksums, most copies or both parities is written anew. Where nothing says what is wrong, nothing is written. A check tells first how much that is."], "Repair")) && ask({ command: "repair" }),
    replace: async (body) => (!body.destroy_data || (await confirmed(`Write over ${body.with}?`, [`All that ${body.with} holds is destroyed: it becomes device ${body.device} of ${name}.`], "Destroy its data"))) && ask(body),
    stop: async () => (await confirmedStop(name)) && ask({ command: "stop" }),
  };
  const actions = h("div", { class: "row" }, button("Check", "check"), h("button", { class: "tiny danger", type: "button", disabled: !hasToken(), onclick: sure.repair }, "Repair"), button("Stop the check", "stop-check"), button("Recover", "recover"), addSpare(ask), rateField(ask), h("button", { class: "tiny danger", type: "button", disabled: !hasToken(), onclick: sure.stop }, "Stop the array"));
  const element = h("section", { class: "card array", "data-array": name }, h("div", { class: "row between" }, title, dataLinks(["JSON", "/api/arrays"])), progress, tiles, disks, chart, h("details", {}, h("summary", {}, "What happened"), events), actions);
  const history = [];
  let drawn = "";
  const update = (array) => {
    latest = array;
    element.dataset.condition = array.condition;
    element.dataset.scan = array.scan?.scan ?? "none";
    title.replaceChildren(h("h2", {}, array.name), pill(array.condition, CONDITIONS[array.condition]), ...(array.scan_bytes_per_sec_max === 0 ? [pill("rebuilds rest", "warn")] : []), h("span", { class: "soft" }, `RAID ${array.level}, ${bytes(array.volume_bytes)}`), h("code", { class: "small soft" }, `raidlab array status ${array.name}`));
    const { cache, scan } = array;
    tiles.replaceChildren(tile(array.failures_left, "members may still fail"), tile(bytes(cache.dirty_bytes), `dirty of ${bytes(cache.size_bytes)} cache`), tile(cache.writes_back ? "write-back" : "write-through", "writes now"), tile(number(array.out_of_sync_stripes), "stripes not known to agree"), ...(array.lost_blocks ? [tile(number(array.lost_blocks), "blocks lost until written again")] : []));
    const done = scan ? scan.done_stripes / Math.max(1, scan.total_stripes) : 0;
    progress.replaceChildren(...(scan ? [h("p", {}, h("b", {}, `${scan.scan}${scan.target === null ? "" : ` of device ${scan.target}`}: ${share(done)}`), scan.bytes_per_sec ? ` · ${number(scan.bytes_per_sec / 1e6)} MB/s of each member` : "", scan.left_ns ? ` · ${span(scan.left_ns)} left` : "", array.parked_scan ? ` · the ${array.parked_scan.scan} waits for it` : ""), h("progress", { max: 1, value: done, "aria-label": scan.scan })] : array.last_scan ? [h("p", { class: "soft small" }, `Last ${array.last_scan.scan}: ${ENDS[array.last_scan.end]}${number(array.last_scan.done_stripes)} stripes, ${number(array.last_scan.mismatched_rows)} rows disagreed, ${number(array.last_scan.rewritten_rows)} rewritten, ${number(array.last_scan.unreadable_rows)} unreadable${array.last_scan.undecided_rows ? `, ${number(array.last_scan.undecided_rows)} undecided: nothing says what is wrong there` : ""}${array.last_scan.incomplete_stripes ? `, ${number(array.last_scan.incomplete_stripes)} stripes not compared in full because a member is missing` : ""}.`)] : []));
    // Fields in a device keep what is being typed: devices are drawn anew only when one changes.
    const state = JSON.stringify(array.devices.map((one) => [one.state, one.path, one.errors, one.bad_blocks, one.unreadable_blocks]));
    if (state !== drawn) disks.replaceChildren(...array.devices.map((one) => device(one, sure, array.devices)));
    drawn = state;
    const { counters } = array;
    history.push([array.uptime_ns / 1e9, counters.host_reads, counters.host_writes]);
    if (history.length > 240) history.shift();
    const rate = (index) => history.slice(1).map((now, at) => [now[0], (now[index] - history[at][index]) / Math.max(0.001, now[0] - history[at][0])]);
    const isBusy = history.at(-1)[1] + history.at(-1)[2] > 0;
    chart.replaceChildren(...(isBusy && history.length > 2 ? [lines({ title: "Host requests per second", series: [{ name: "reads", points: rate(1) }, { name: "writes", points: rate(2) }], x: { name: "seconds since it is served" }, y: { name: "requests/s" }, height: 200 })] : []));
    events.replaceChildren(...[...array.events].reverse().map((event) => h("li", {}, h("span", { class: "soft" }, `${event.time}  `), event.level === "info" ? "" : pill(event.level, event.level === "error" ? "bad" : "warn"), event.text)));
  };
  return { element, update };
}

const short = (path) => (path ?? "").split("/").pop();

/** What is left of an array when a device is taken out of it. */
function afterFailing(array, one) {
  const survives = (count) => (count === 0 ? "no further failure" : count === 1 ? "1 more failure, whichever device it is" : `${count} more failures, whichever devices they are`);
  const named = `Device ${one.device}${one.path ? ` is ${one.path}` : ""}: ${one.state}. ${array.name} is ${array.condition}, RAID ${array.level}.`;
  const spares = array.devices.filter((other) => other.state === "spare" && other.device !== one.device).length;
  if (one.state === "spare") return [named, `No data is on it. The array survives ${survives(array.failures_left)}, as before, with ${spares === 0 ? "no spare" : `${spares} more as ${spares === 1 ? "a spare" : "spares"}`}.`];
  if (one.state === "in-sync" && array.failures_left === 0) return [named, "Data may be lost with it: the array survives no failure of just any device now. It refuses if nothing else has what this one holds."];
  const left = array.failures_left - (one.state === "in-sync" ? 1 : 0);
  return [named, `Afterwards the array survives ${survives(left)}.`, spares > 0 ? `A spare takes its place at once; when that is rebuilt, the array survives ${survives(array.failures_left)} again.` : "There is no spare: it stays degraded until the device is replaced."];
}

function device(one, sure, all) {
  const can = { class: "tiny", type: "button", disabled: !hasToken() };
  const isSlot = one.state === "empty";
  const kind = isSlot ? "" : (DEVICES[one.state] ?? "");
  const parts = [h("div", { class: "row between" }, h("b", {}, `${one.device}`), pill(isSlot ? "free slot" : one.state, kind)), h("div", { title: one.path ?? "" }, short(one.path) || h("span", { class: "soft" }, isSlot ? "nothing" : "modelled"))];
  if (one.errors || one.bad_blocks) parts.push(h("div", { class: "small soft" }, `${number(one.errors)} errors, ${number(one.bad_blocks)} bad blocks${one.unreadable_blocks ? `, ${number(one.unreadable_blocks)} of them only unreadable` : ""}`));
  if (["in-sync", "rebuilding", "spare"].includes(one.state)) parts.push(h("div", { class: "row" }, h("button", { ...can, class: "tiny danger", "data-fail": one.device, onclick: () => sure.fail(one) }, "Fail")));
  else if (!isSlot) {
    const used = new Set(all.map((other) => short(other.path)));
    let next = 0;
    while (used.has(`new${next}`)) next++;
    const input = h("input", { "aria-label": `New device for ${one.device}`, value: `new${next}`, list: "files", name: "with" });
    const destroy = h("input", { type: "checkbox", "aria-label": "Destroy what it holds" });
    const replace = () => sure.replace({ command: "replace", device: String(one.device), with: input.value, ...(destroy.checked ? { destroy_data: input.value } : {}) });
    parts.push(input, h("label", { class: "check small" }, destroy, h("span", {}, "destroy its data")), h("div", { class: "row" }, h("button", { ...can, "data-replace": one.device, onclick: replace }, "Replace")));
  }
  return h("li", { class: `disk ${kind}`, "data-state": one.state, "data-device": one.device }, parts);
}

function addSpare(ask) {
  const input = h("input", { "aria-label": "New spare", placeholder: "spare0", list: "files", size: 10 });
  return h("span", { class: "row pair" }, input, h("button", { class: "tiny", type: "button", disabled: !hasToken(), onclick: () => ask({ command: "add-spare", path: input.value }) }, "Add spare"));
}

function rateField(ask) {
  const input = h("input", { "aria-label": "Most bytes per second of a rebuild", placeholder: "none", value: "", size: 8 });
  return h("span", { class: "row pair" }, input, h("button", { class: "tiny", type: "button", disabled: !hasToken(), onclick: () => ask({ command: "rebuild", rate: input.value || "none" }) }, "Set rebuild rate"));
}
