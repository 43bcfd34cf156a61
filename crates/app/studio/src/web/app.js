// The frame around the pages: navigation, and which page an address shows.
import { Fault, get, hasToken, takeToken } from "./api.js";
import { faultBox, h } from "./ui.js";

// Name, title, what may stand behind the name in an address, and what makes the page.
const PAGES = [
  ["home", "Home", /^$/, () => import("./pages/home.js")],
  ["plan", "Plan", /^$/, () => import("./pages/plan.js")],
  ["papers", "Papers", /^([^/]+(\/[^/]+)?)?$/, () => import("./pages/papers.js")],
  ["runs", "Runs", /^(\d+|(choose|compare)\/[\d,]+)?$/, () => import("./pages/runs.js")],
  ["live", "Live", /^(soak)?$/, () => import("./pages/live.js")],
  ["arrays", "Arrays", /^$/, () => import("./pages/arrays.js")],
  ["emulate", "Emulate", /^$/, () => import("./pages/emulate.js")],
  ["catalogue", "Catalogue", /^[^/]*$/, () => import("./pages/catalogue.js")],
];

const page = document.getElementById("page");
const nav = document.getElementById("nav");
let shown = 0;

/** The page of an address, and what stands behind its name; throws where there is none. */
function find(address) {
  const [name, ...rest] = address.split("/");
  const found = PAGES.find(([id, , form]) => id === (name || "home") && form.test(rest.join("/")));
  if (!found) throw new Fault({ status: 404, what: "There is no such page.", where: `#/${address}`, what_to_do: "choose one of the pages beside this text" });
  return [found, rest];
}

async function show() {
  const mine = ++shown;
  let [name, parts] = ["none", []];
  try {
    const address = location.hash.replace(/^#\/?/, "").replace(/\/$/, "");
    const [[id, title, , load], rest] = find(address);
    name = id;
    document.title = `${title} · raidlab studio`;
    const module = await load();
    parts = [!hasToken() && h("div", { class: "warn-box" }, h("p", {}, "You can look at everything. To start or change something, open the whole address that ‘raidlab studio’ printed, with its token.")), await module.show(rest.map(decodeURIComponent), () => mine === shown)];
  } catch (fault) {
    const isAbsent = fault.status === 404 || fault instanceof URIError;
    parts = [h("h1", {}, isAbsent ? "Not found" : "This page cannot be shown"), faultBox(fault), h("p", {}, h("a", { href: "#/" }, "To the home page"))];
  }
  if (mine !== shown) return;
  nav.replaceChildren(...PAGES.map(([id, title]) => h("a", { href: id === "home" ? "#/" : `#/${id}`, "aria-current": id === name ? "page" : null }, title)));
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  page.replaceChildren(...parts.flat(Infinity).filter(Boolean));
  document.title = `${page.querySelector("h1").textContent} · raidlab studio`;
  page.dataset.page = name;
  scrollTo(0, 0);
}

addEventListener("hashchange", () => { takeToken(); document.getElementById("notes").replaceChildren(); show(); page.focus({ preventScroll: true }); });
takeToken();
show();
get("/api/studio").then((studio) => (document.getElementById("place").textContent = `raidlab ${studio.version}, files in ${studio.folder}`)).catch(() => {});
