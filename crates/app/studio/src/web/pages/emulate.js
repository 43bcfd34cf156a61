// Emulate: an array that you do not own, served at its own speed.
import { get } from "../api.js";
import { card, commandBox, h, head, order, tools, values } from "../ui.js";
import { jobCard } from "../jobs.js";
import { watch } from "./arrays.js";

export async function show(_, isShown) {
  const [{ entries }, { jobs }] = await Promise.all([get("/api/catalogue"), get("/api/jobs")]);
  const choices = (kind) => entries.filter((entry) => entry.kind === kind).map((entry) => [entry.id, entry.name]);
  const place = h("div", { id: "arrays" });
  const list = h("div", { id: "jobs" });
  const served = new Set(jobs.filter((job) => job.kind === "emulate").map((job) => job.subject));
  const client = h("div");
  const add = (job) => {
    served.add(job.subject);
    const socket = /--socket=(\S+)/.exec(job.command)?.[1] ?? "";
    client.replaceChildren(h("h3", {}, "Put a load on it"), commandBox(`fio --name=db --ioengine=nbd --uri='nbd+unix:///${job.subject}?socket=${socket}' --rw=randrw --rwmixread=67 --bs=8k --iodepth=16 --time_based --runtime=30`), commandBox(`raidlab measure 'nbd+unix:///${job.subject}?socket=${socket}' --workload storagebench-database --iodepth 16 --destroy-data 'nbd+unix:///${job.subject}?socket=${socket}'`));
    list.prepend(jobCard(job));
  };
  jobs.filter((job) => job.kind === "emulate").reverse().slice(-4).forEach(add);
  const text = { name: "array", label: "Description", hint: "follows the fields above until it is edited; kept as NAME.toml in the folder", type: "textarea", wide: true, rows: 13 };
  const form = order({
    path: () => "/api/emulate", button: "Serve the modelled array", done: add, isWaiting: true,
    fields: [
      { name: "name", label: "Name", value: "r5" }, { name: "socket", label: "NBD socket", value: "r5.nbd" },
      { name: "x-level", label: "RAID level", options: ["0", "1", "10", "5", "6", "50:2-spans"], value: "5" },
      { name: "x-members", label: "Members", type: "number", min: "1", max: "64", value: "6" },
      { name: "x-drive", label: "Drives", options: choices("drive"), value: "st3600057ss" }, { name: "x-controller", label: "Controller", options: choices("controller"), value: "perc-h800" },
      { name: "x-policy", label: "Writes", options: ["write-through", "write-back"], value: "write-back" }, { name: "x-region", label: "Size that is served", value: "1 GiB" },
      { name: "backing", label: "Keep the bytes in", hint: "a file; else they are in memory", placeholder: "memory" }, { name: "destroy_data", label: "Destroy the data of", hint: "name that file once more if it holds data", placeholder: "nothing" }, text],
    body: (found) => Object.fromEntries(Object.entries(found).filter(([name]) => !name.startsWith("x-"))),
  });
  const area = form.elements.array;
  const write = () => {
    const it = values(form);
    area.value = ["schema = 1", `level = "${it["x-level"]}"`, `members = ${it["x-members"]}`, `drive = "${it["x-drive"]}"`, `controller = "${it["x-controller"]}"`, `write-policy = "${it["x-policy"]}"`, `region = "${it["x-region"]}"`, "", "[resilience]", 'metadata = "bitmap"', ""].join("\n");
    form.preview();
  };
  form.addEventListener("input", (event) => event.target.name.startsWith("x-") && write());
  write();
  watch(place, isShown, (array) => served.has(array.name));
  return [head("Emulate", "A modelled array served over NBD at the speed that the real one would have, with real bytes behind it: put a database or fio on it, and let it lose a drive."), tools("raidlab array status", ["JSON", "/api/arrays"]), card("Serve a modelled array", form, client), place, list];
}
