"""Lighthouse's marks for the studio's pages: accessibility and best practices, at least 95 of 100.

usage: lighthouse.py PROGRAM

The studio is empty: what fills it is looked at by pages.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from server import Studio

PROGRAM = "target/lighthouse/node_modules/.bin/lighthouse"
# All pages, in all forms, are looked at by axe-core in pages.py.
PAGES = [("home", "phone", "light"), ("plan", "desktop", "dark"), ("arrays", "phone", "dark"), ("catalogue", "desktop", "light")]
WIDTHS = {"phone": 390, "desktop": 1400}
CATEGORIES = ["accessibility", "best-practices"]
LEAST = 95


def marks(address, kind, scheme):
    """The page's mark of each category, of 100, and what took from it."""
    # Blink's own number of a preference: 0 is dark, 1 is light.
    prefers = f"--blink-settings=preferredColorScheme={'light dark'.split().index(scheme) ^ 1}"
    command = [PROGRAM, address, "--quiet", "--output=json", f"--only-categories={','.join(CATEGORIES)}",
               f"--screenEmulation.width={WIDTHS[kind]}", "--throttling-method=provided",
               f"--chrome-flags=--headless=new --no-sandbox --disable-dev-shm-usage {prefers}"]
    if kind == "desktop":
        command.append("--preset=desktop")
    environment = {**os.environ, "CHROME_PATH": "/usr/bin/chromium"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert run.returncode == 0, f"lighthouse on {address}: {run.stderr}"
    report = json.loads(run.stdout)
    missed = [name for name, audit in report["audits"].items() if audit["score"] is not None and audit["score"] < 1]
    return {name: round(100 * report["categories"][name]["score"]) for name in CATEGORIES}, missed


def main():
    failed = []
    with tempfile.TemporaryDirectory(prefix="studio-lighthouse-") as folder, Studio(os.path.abspath(sys.argv[1]), folder) as studio:
        def look(place):
            return place, marks(f"{studio.base}/#/{place[0]}", *place[1:])

        # Each waits most of its time.
        with ThreadPoolExecutor() as pool:
            for (page, kind, scheme), (found, missed) in pool.map(look, PAGES):
                print(f"{page} on a {kind}, {scheme}: {found}{', ' + ', '.join(missed) if missed else ''}")
                failed += [f"{page} {kind} {scheme} {found} {missed}" for mark in found.values() if mark < LEAST]
    assert not failed, failed


if __name__ == "__main__":
    main()
