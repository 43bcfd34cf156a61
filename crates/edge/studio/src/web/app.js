// The frame around the pages: navigation, and which page an address shows.
import { get, hasToken, takeToken } from "./api.js";
import { faultBox, h } from "./ui.js";

const PAGES = [
  ["papers", "Papers"],
  ["runs", "Runs"],
  ["live", "Live"],
  ["arrays", "Arrays"],
  ["emulate", "Emulate"],
  ["catalogue", "Catalogue"],
];
const LOADERS = {
  papers: () => import("./pages/papers.js"),
  runs: () => import("./pages/runs.js"),
  live: () => import("./pages/live.js"),
  arrays: () => import("./pages/arrays.js"),
  emulate: () => import("./pages/emulate.js"),
  catalogue: () => import("./pages/catalogue.js"),
};

const page = document.getElementById("page");
const nav = document.getElementById("nav");
let shown = 0;

async function show() {
  const mine = ++shown;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const found = LOADERS[name] ? name : "papers";
  nav.replaceChildren(...PAGES.map(([id, title]) => h("a", { href: `#/${id}`, "aria-current": id === found ? "page" : null }, title)));
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.title = `${PAGES.find(([id]) => id === found)[1]} · raidlab studio`;
  try {
    const module = await LOADERS[found]();
    const parts = await module.show(rest, () => mine === shown);
    if (mine !== shown) return;
    const hint = hasToken() ? [] : [h("div", { class: "warn-box" }, h("p", {}, "You can look at everything. To start or change something, open the whole address that ‘raidlab studio’ printed, with its token."))];
    page.replaceChildren(...hint, ...parts.flat().filter(Boolean));
  } catch (fault) {
    if (mine === shown) page.replaceChildren(faultBox(fault));
  }
  page.dataset.page = found;
  scrollTo(0, 0);
}

addEventListener("hashchange", () => { takeToken(); document.getElementById("notes").replaceChildren(); show(); page.focus({ preventScroll: true }); });
takeToken();
show();
get("/api/studio").then((studio) => (document.getElementById("place").textContent = `raidlab ${studio.version}, files in ${studio.folder}`)).catch(() => {});
