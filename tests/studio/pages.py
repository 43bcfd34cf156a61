"""The studio's pages in Debian's Chromium, as a person uses them.

usage: pages.py PROGRAM [FOLDER]    with FOLDER, a picture of each page, wide and narrow, light and dark, is kept there

Verified: each page shows its figures, its command line and its data; an array is made, served, broken, mended and stopped; a
measurement is started, watched and stopped, and its run is listed; the same by keyboard; the token is asked for; the console
has no errors, so no script failed and the content policy refused nothing; narrow pages do not scroll sideways; axe-core
finds nothing on any page, wide and narrow, in both colour schemes. Not verified: how it looks, for which there are the pictures.
"""

import os
import pathlib
import sys
import tempfile

from browser import Browser
from server import Studio

PAGES = ["home", "plan", "papers", "papers/md1200-2011", "runs", "live", "live/soak", "arrays", "emulate", "catalogue"]
# The same and those that show what the tests have made.
FILLED = [*PAGES, "papers/md1200-2011/Table%204", "runs/1", "runs/compare/1,2"]
# An array's name is its control socket's, and other tests run on the same machine.
ARRAY = f"studio-{os.getpid()}"

# Accessibility: all of axe-core's rules, its best practices too.
AXE = pathlib.Path("target/axe/node_modules/axe-core/axe.min.js")
VIOLATIONS = """
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ['violations'] }).then(
  (found) => done(found.violations.map((it) => `${it.id} (${it.help}): ${it.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(' | ')}`)),
  (error) => done([`axe-core did not run: ${error}`]));
"""


def papers(browser):
    """Figures of a table are predicted and compared, each with what sets its pace."""
    browser.go("papers")
    browser.see("PowerVault MD1200/MD1220")
    browser.go("papers/md1200-2011/Table%204")
    browser.see("raidlab reproduce md1200-2011 --table 'Table 4'")
    browser.click("#bottleneck")
    browser.click("#predict")
    # Half a minute of two processors, which other parts of the tests may want, too.
    patience, browser.patience = browser.patience, 600
    browser.see("Figure by figure")
    browser.patience = patience
    browser.see("median error")
    points = browser.run("return document.querySelectorAll('svg .dot').length")
    rows = browser.run("return document.querySelectorAll('tbody tr').length")
    assert points == rows == 12, (points, rows)
    errors = browser.run("return [...document.querySelectorAll('tbody .pill')].map((it) => it.textContent)")
    assert sum("%" in error for error in errors) == 12, errors
    paces = browser.run("""const at = [...document.querySelectorAll('thead th')].findIndex((it) => it.textContent.startsWith('Bottleneck'));
        return [...document.querySelectorAll('tbody tr')].map((row) => row.children[at]?.textContent)""")
    assert len(paces) == 12 and all(paces), paces


def catalogue(browser):
    """Figures with their sources are found by words."""
    browser.go("catalogue")
    everything = browser.wait("return document.querySelectorAll('details').length")
    browser.fill("input[type=search]", "cheetah 15k.7 seek")
    browser.wait("return document.querySelectorAll('details').length < arguments[0]", everything)
    browser.click("#entry-st3600057ss summary")
    browser.wait("return document.querySelectorAll('td.source').length > 5")
    empty = browser.run("return [...document.querySelectorAll('td.source')].filter((it) => !it.textContent).length")
    assert empty == 0, empty


def plan(browser):
    """Needs give ranked arrays, a chart and a reason."""
    browser.go("plan")
    for name, value in {"usable": "500GB", "iops": "800", "simulations": "1", "top": "1"}.items():
        browser.fill(f"[name={name}]", value)
    browser.see("raidlab plan --app=storagebench-database --usable=500GB --survive=1 --iops=800")
    browser.click("form button.main")
    patience, browser.patience = browser.patience, 600
    browser.see("arrays looked at")
    browser.patience = patience
    browser.see("Why")
    ranked = browser.run("return document.querySelector('table').querySelectorAll('tbody tr').length")
    assert ranked == 1, ranked
    browser.see("Why not another")
    assert browser.run("return document.querySelectorAll('svg .dot').length") > 0


def live(browser, studio):
    """A measurement moves, is stopped, and another is in the list of runs when it is done."""
    browser.go("live")
    assert "Jobs" not in browser.run("return document.getElementById('page').innerText"), "a heading above nothing"
    # The form works as it stands; only the time is cut here.
    browser.see("raidlab measure raidlab-test.bin --workload=storagebench-database --iodepth=8 --run=10s --size=256MiB")
    browser.fill("[name=run]", "50ms")
    browser.fill("[name=size]", "16MiB")
    browser.click("form button.main")
    browser.see("To the runs")
    browser.fill("[name=target]", "load.bin")
    browser.fill("[name=size]", "16MiB")
    browser.fill("[name=run]", "10m")
    browser.see("raidlab measure load.bin --workload=storagebench-database --iodepth=8 --run=10m --size=16MiB")
    browser.click("form button.main")
    path = "document.querySelector('[data-job] svg .line')?.getAttribute('d')"
    first = browser.wait(f"return {path}")
    browser.wait(f"const now = {path}; return now && now !== arguments[0]", first, what="a chart that moves")
    browser.click("[data-job] button.danger")
    browser.see("stopped after")
    # The file holds data now, so a load that writes is refused until the file is named for it.
    browser.fill("[name=target]", "kept.bin")
    with open(os.path.join(studio.folder, "kept.bin"), "wb") as file:
        file.write(b"precious" * (1 << 17))
    browser.fill("[name=run]", "1s")
    browser.fill("[name=size]", "")
    browser.click("form button.main")
    browser.see("destroy-data")
    with open(os.path.join(studio.folder, "kept.bin"), "rb") as file:
        assert file.read() == b"precious" * (1 << 17), "data was written over"
    browser.fill("[name=destroy_data]", "kept.bin")
    browser.click("form button.main")
    browser.wait("return [...document.querySelectorAll('[data-job] a')].filter((it) => it.textContent === 'To the runs').length === 2")


def runs(browser):
    """Two runs are listed, shown and compared."""
    browser.go("runs")
    browser.wait("return document.querySelectorAll('tbody tr').length === 2")
    compare = "[...document.querySelectorAll('button')].find((it) => /Compare|Choose two/.test(it.textContent))"
    assert browser.run(f"return {compare}.disabled")
    browser.run("document.querySelectorAll('tbody input').forEach((it) => it.click())")
    browser.see("Compare 2 runs")
    browser.run(f"{compare}.click()")
    browser.see("Ratios")
    # Back finds what was chosen.
    browser.run("history.back()")
    browser.see("Compare 2 runs")
    assert browser.run("return [...document.querySelectorAll('tbody input')].every((it) => it.checked)")
    browser.run(f"{compare}.click()")
    browser.see("Ratios")
    browser.see("Latency by percentile")
    assert browser.run("return document.querySelectorAll('svg').length") >= 3
    browser.go("runs/1")
    browser.see("99th percentile")
    browser.see("Settings in effect")


def arrays(browser, studio, pictures_folder):
    """An array's whole life."""
    browser.go("arrays")
    browser.fill("[name=name]", ARRAY)
    browser.fill("[name=member_size]", "24MiB")
    browser.fill("[name=spares]", "s0")
    browser.see(f"raidlab array create {ARRAY} d0 d1 d2 d3 --level=5")
    browser.click("form button.main")
    # What was made is filled in for serving.
    browser.see(f"raidlab array serve d0 d1 d2 d3 s0 --socket={ARRAY}.nbd")
    browser.run("document.querySelectorAll('form')[1].querySelector('button.main').click()")
    card = f"[data-array={ARRAY}]"
    condition = f"return document.querySelector('{card}')?.dataset.condition"
    browser.wait(f"{condition} === 'optimal'", what="an optimal array")
    # Its redundancy is computed first.
    browser.wait(f"return document.querySelector('{card}')?.dataset.scan === 'none'", what="the end of the resync")
    # One click takes nothing out: a dialog names the device and what is left, and begins on what does no harm.
    browser.click(f"{card} [data-fail='1']")
    browser.see("Take device 1 out of")
    browser.see("Afterwards the array survives no further failure")
    browser.see("A spare takes its place at once")
    assert browser.run("return document.activeElement.textContent") == "Cancel"
    bad = violations(browser)
    assert not bad, f"the dialog: {bad}"
    if pictures_folder:
        browser.picture(os.path.join(pictures_folder, "dialog.png"))
    for keys in (["escape"], ["enter"]):
        browser.wait("return document.querySelector('dialog[open]')", what="the dialog")
        browser.press(*keys)
        browser.wait("return !document.querySelector('dialog')", what="the end of the dialog")
        assert browser.run(f"return document.querySelector('{card} [data-device=\"1\"]').dataset.state") == "in-sync"
        browser.click(f"{card} [data-fail='1']")
    browser.press("tab", "enter")
    # The spare takes its place, and then one more fails.
    browser.see("Last rebuild")
    browser.wait(f"{condition} === 'optimal'", what="the spare in its place")
    browser.wait(f"return document.querySelector('{card}')?.dataset.scan === 'none'", what="the end of the rebuild")
    # The slot that the first one left is free.
    browser.wait(f"return document.querySelector('{card} [data-device=\"1\"]').dataset.state === 'empty'", what="a free slot")
    browser.click(f"{card} [data-fail='2']")
    browser.click("dialog [data-confirm]")
    browser.wait(f"{condition} === 'degraded'", what="a degraded array")
    # A file that holds data does not replace it unless it is named for that.
    with open(os.path.join(studio.folder, "holds.img"), "wb") as file:
        file.write(b"precious" * (4 << 20))
    browser.fill(f"{card} [data-device='2'] [name=with]", "holds.img")
    browser.click(f"{card} [data-replace='2']")
    browser.see("What to do")
    with open(os.path.join(studio.folder, "holds.img"), "rb") as file:
        assert file.read() == b"precious" * (4 << 20), "data was written over"
    browser.fill(f"{card} [data-device='2'] [name=with]", "fresh.img")
    browser.click(f"{card} [data-replace='2']")
    browser.wait(f"{condition} === 'optimal'", what="a rebuilt array")
    for page in PAGES:
        browser.go(page)
    browser.go("arrays")
    browser.run(f"[...document.querySelectorAll('{card} button')].find((it) => it.textContent === 'Stop the array')?.click()")
    browser.click("dialog [data-confirm]")
    browser.wait(f"return !document.querySelector('{card}')", what="an array that is stopped")
    # The members that failed are not offered for serving, and the page says so.
    browser.wait("return document.querySelectorAll('form')[1].elements.devices.value === 'd0 d3 fresh.img s0'", what="the array's devices of now")
    browser.see("d1 is left out")


def emulate(browser):
    """A modelled array is served and stopped."""
    browser.go("emulate")
    browser.fill("[name=name]", f"{ARRAY}-e")
    browser.fill("[name=socket]", "e.nbd")
    browser.see(f"raidlab emulate {ARRAY}-e.toml --socket=e.nbd")
    browser.click("form button.main")
    card = f"[data-array={ARRAY}-e]"
    browser.wait(f"return document.querySelectorAll('{card} .disk').length === 6", what="six modelled drives")
    browser.click("[data-job] button.danger")
    browser.click("dialog [data-confirm]")
    browser.wait(f"return !document.querySelector('{card}')", what="a modelled array that is stopped")


def keyboard(browser):
    """A page is reached and a form is sent without a mouse."""
    browser.go("papers")
    browser.run("document.activeElement.blur(); document.getElementById('page').focus()")
    browser.run("document.querySelector('nav a[href=\"#/live\"]').focus()")
    browser.press("enter")
    browser.wait("return document.getElementById('page').dataset.page === 'live' && document.querySelector('form')")
    browser.run("document.querySelector('[name=workload]').focus()")
    browser.press("tab")
    assert browser.run("return document.activeElement.name") == "iodepth"
    ring = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert ring != "none", "what has the focus is not marked"


def without_token(studio, browser):
    """Who has no token looks and changes nothing."""
    browser.open(f"{studio.base}/")
    browser.see("with its token")
    browser.go("live")
    assert browser.run("return document.querySelector('form button.main').disabled")


def violations(browser):
    """What axe-core finds wrong with the page as it is now."""
    if not browser.run("return 'axe' in window"):
        browser.run(f"{AXE.read_text()}; window.axe = axe;")
    return browser.run_until_called(VIOLATIONS)


def fits(browser, scheme, pages):
    """Pages fit the window, are told apart by their titles, and axe-core finds nothing wrong with them."""
    titles = {}
    for page in pages:
        browser.go(page)
        wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{page} is {wide} px wider than the window"
        titles.setdefault(browser.run("return document.title"), []).append(page)
        bad = violations(browser)
        assert not bad, f"{page}, {scheme}: " + "\n".join(bad)
    assert all(len(same) == 1 for same in titles.values()), titles


def absent(studio, browser):
    """What is at no address is said to be absent: by a page, and by the server for an address without '#'."""
    for place in ["nothing", "runs/x", "papers/md1200-2011/Table%2099", "papers/nobody", "catalogue/nothing", "live/x", "plan/1"]:
        browser.run("document.title = ''; location.hash = '#/' + arguments[0]", place)
        browser.wait("return document.title.startsWith('Not found')", what=f"a page that says that {place} is not there")
    browser.open(f"{studio.base}/nothing")
    browser.see("There is no such page")
    browser.open(f"{studio.base}/")


def narrow(browser):
    """Narrow windows show the columns that matter, and the others when asked."""
    browser.go("runs")
    shown = "[...document.querySelectorAll('thead th')].filter((it) => it.checkVisibility()).length"
    few = browser.wait(f"return {shown}")
    over = browser.run("const it = document.querySelector('.scroll'); return it.scrollWidth - it.clientWidth")
    assert over <= 0, f"the table is {over} px wider than its place"
    # A drive's name, as long as the catalogue's are, stays in one line.
    lines = browser.run("""const place = document.querySelector('td.part'), text = place.textContent;
        place.textContent = 'st32000444ss';
        const range = document.createRange();
        range.selectNodeContents(place);
        const count = range.getClientRects().length;
        place.textContent = text;
        return count""")
    assert lines == 1, f"a drive's name takes {lines} lines"
    browser.click("button.narrow")
    assert few < browser.run(f"return {shown}") == browser.run("return document.querySelectorAll('thead th').length")


def pictures(browser, folder, kind):
    for page in FILLED:
        browser.go(page)
        if "Table" in page:
            browser.see("Figure by figure")
        browser.picture(os.path.join(folder, f"{page.replace('/', '-').replace('%20', '')}-{kind}.png"))


def main():
    program = os.path.abspath(sys.argv[1])
    kept = sys.argv[2] if len(sys.argv) > 2 else None
    # Direct I/O needs a folder on a disk, which the build's own is.
    with tempfile.TemporaryDirectory(prefix="studio-", dir=os.path.dirname(program)) as folder:
        with Studio(program, folder) as studio:
            studio.folder = folder
            with Browser(1400) as browser:
                browser.open(studio.url)
                browser.see("Last runs")
                assert "token" not in browser.run("return location.href"), "the token stays in the address"
                plan(browser)
                papers(browser)
                catalogue(browser)
                live(browser, studio)
                runs(browser)
                arrays(browser, studio, kept)
                emulate(browser)
                keyboard(browser)
                for scheme in ("light", "dark"):
                    browser.prefer(scheme)
                    fits(browser, f"wide, {scheme}", FILLED)
                browser.prefer("light")
                absent(studio, browser)
                # What was refused on purpose is said by the browser, too.
                refused = ("422", "409", "404")
                bad = [text for text in browser.complaints() if not any(f"status of {status}" in text for status in refused)]
                assert not bad, bad
                if kept:
                    pictures(browser, kept, "wide-light")
                    browser.prefer("dark")
                    pictures(browser, kept, "wide-dark")
            with Browser(390, 800, dark=True) as browser:
                without_token(studio, browser)
                browser.open(studio.url)
                browser.see("Last runs")
                for scheme in ("light", "dark"):
                    browser.prefer(scheme)
                    fits(browser, f"narrow, {scheme}", FILLED)
                narrow(browser)
                if kept:
                    pictures(browser, kept, "narrow-dark")
                    browser.prefer("light")
                    pictures(browser, kept, "narrow-light")
                assert not browser.complaints()
            ended = studio.close()
            assert ended == 0, ended
    print("the studio's pages: all is well")


main()
