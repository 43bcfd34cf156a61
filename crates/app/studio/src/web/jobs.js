// Jobs: watched until they end. Polled, because a page asks little and a browser keeps few connections open.
import { get, hasToken, post } from "./api.js";
import { commandBox, complain, confirmedStop, faultBox, h, pill, span } from "./ui.js";

const EVERY_MS = 400;
const SERVERS = ["array-serve", "emulate"];
const KINDS = { running: "on", done: "good", failed: "bad", stopped: "warn" };

/** Calls update(job, allTicks) until the job has ended or the page is left. */
export function watch(id, update, place) {
  const ticks = [];
  let from = 0;
  const look = async () => {
    if (place && !place.isConnected && ticks.length + from > 0) return;
    try {
      const job = await get(`/api/jobs/${id}?from=${from}`);
      ticks.push(...job.ticks);
      if (ticks.length > 4000) ticks.splice(0, ticks.length - 4000);
      from = job.next_tick;
      update(job, ticks);
      if (job.state === "running") setTimeout(look, EVERY_MS);
    } catch (fault) {
      complain(fault);
    }
  };
  look();
}

export const result = (id) => get(`/api/jobs/${id}/result`);

/** What went wrong, as the command line says it. */
export function failureBox(job) {
  if (job.failure) {
    const text = (kind) => job.failure.filter((line) => line.kind === kind).map((line) => line.text).join("; ");
    return faultBox({ what: text("error"), where: text("because"), what_to_do: text("hint") });
  }
  return h("div", {}, faultBox({ what: `The command ended with code ${job.exit_code ?? "none"}.` }), job.messages.length > 0 && h("pre", {}, job.messages.join("\n")));
}

export const elapsed = (job) => span(((job.ended_at_unix_ms ?? Date.now()) - job.started_at_unix_ms) * 1e6);

/** A job with its progress; draw(job, ticks) adds what its kind has to show. */
export function jobCard(job, draw, ended) {
  const title = h("h3", {}, job.subject);
  const state = h("span", {}, pill(job.state, KINDS[job.state]));
  const label = h("p", { class: "small soft" });
  const bar = h("progress", { max: 1, "aria-label": `Progress of ${job.subject}` });
  const shown = h("div");
  const stop = h("button", { class: "danger tiny", type: "button", disabled: !hasToken(), onclick: () => end() }, "Stop");
  const end = async () => {
    if (SERVERS.includes(job.kind) && !(await confirmedStop(job.subject))) return;
    stop.textContent = "Stopping…";
    try {
      await post(`/api/jobs/${job.id}/stop`);
    } catch (fault) {
      complain(fault);
    }
  };
  const card = h("section", { class: "card", "data-job": job.id }, h("div", { class: "row between" }, h("div", { class: "row" }, title, state), stop), bar, label, commandBox(job.command), h("p", { class: "row" }, h("a", { class: "button tiny", href: `/api/jobs/${job.id}`, target: "_blank", rel: "noopener" }, "JSON")), shown);
  watch(job.id, (now, ticks) => {
    const last = ticks.at(-1);
    state.replaceChildren(pill(now.state, KINDS[now.state]));
    const isOver = now.state !== "running";
    stop.hidden = isOver;
    const isServer = SERVERS.includes(now.kind);
    bar.hidden = isOver || isServer;
    if (last) bar.value = last.share;
    label.textContent = isOver ? `${now.state} after ${elapsed(now)}` : `${last?.label ?? (isServer ? "being served" : "starting")} · ${elapsed(now)}`;
    const parts = [draw?.(now, ticks)].flat();
    if (now.state === "failed") parts.push(failureBox(now));
    shown.replaceChildren(...parts.filter(Boolean));
    if (isOver) ended?.(now, shown, ticks);
  }, card);
  return card;
}
