#!/usr/bin/env python3
"""Runs the commands that the documents tell people to type, on small stand-ins.

    run.py RAIDLAB [PAGE...]        the binary; pages by their path, all that pages.toml names by default

A page is read from its fenced blocks: each command that begins with `raidlab`, with the lines that continue it, in the order
of the page, in one scratch folder. `pages.toml` says for each page what is put into that folder first, and what takes the place
of devices, other hosts, long times and large sizes: (pattern, replacement), each of which must be of use. A command that ends
in `&` goes to the background, and its first line is waited for. Verified: each command ends well, or with a code that says what it found (`VERDICTS`).
A page with commands that pages.toml does not name is an error, unless its entry says why they are left out.
Left out: what the commands print, which is the business of the tests of each crate; commands of other programs.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = tomllib.loads((pathlib.Path(__file__).parent / "pages.toml").read_text())
LIMIT_SECONDS = 300
# Codes of commands that ended well and say what they found.
VERDICTS = {"--bound|--until": (0, 3), "array status": (0, 4)}


def fenced_commands(page):
    """The commands of a page, comments cut off."""
    commands, fenced, lines = [], False, iter((ROOT / page).read_text().splitlines())
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
            continue
        line = re.sub(r"^(\$ |sudo )", "", line)
        if not fenced or not line.startswith("raidlab "):
            continue
        while line.rstrip().endswith("\\"):
            line = line.rstrip()[:-1] + " " + next(lines).strip()
        commands.append(re.sub(r"\s+#.*$", "", line).strip())
    return commands


def replaced(page, commands, rules):
    """The commands with stand-ins; complains of a rule that no command needs."""
    used = set()
    for index, command in enumerate(commands):
        for number, (pattern, replacement) in enumerate(rules):
            command, count = re.subn(pattern, replacement, command)
            if count:
                used.add(number)
        commands[index] = command
    for number, (pattern, _) in enumerate(rules):
        if number not in used:
            sys.exit(f"{page}: no command needs the rule '{pattern}'")
    return commands


def await_server(command, process):
    """A server says where it listens once it does."""
    said = process.stdout.readline()
    if not said:
        process.wait(timeout=60)
        sys.exit(f"ended with {process.returncode}: {command}\n{process.stderr.read()}")


def run_page(page, entry, raidlab):
    commands = replaced(page, fenced_commands(page), entry.get("rules", []))
    with tempfile.TemporaryDirectory(prefix="raidlab-docs.") as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "bin" / "raidlab").symlink_to(raidlab)
        for link in ("studies", "validation", "workloads", "papers", "crates"):
            (folder / link).symlink_to(ROOT / link)
        runtime = folder / "run"
        runtime.mkdir(mode=0o700)
        environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", XDG_RUNTIME_DIR=str(runtime))
        servers = []
        bash = ["bash", "-eu", "-o", "pipefail", "-c"]
        try:
            subprocess.run([*bash, entry.get("before", ":")], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
            for command in commands:
                if not command:
                    continue
                if command.endswith("&"):
                    process = subprocess.Popen(
                        [*bash, "exec " + command[:-1]], cwd=folder, env=environment, start_new_session=True,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    )
                    servers.append(process)
                    await_server(command, process)
                    continue
                began = time.monotonic()
                said = subprocess.run([*bash, command], cwd=folder, env=environment, timeout=LIMIT_SECONDS,
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True)
                allowed = next((codes for words, codes in VERDICTS.items() if re.search(words, command)), (0,))
                if said.returncode not in allowed:
                    sys.exit(f"{page}: ended with {said.returncode}: {command}\n{said.stdout[-2000:]}{said.stderr[-2000:]}")
                print(f"{page}: {time.monotonic() - began:5.1f} s  {command}", file=sys.stderr)
        finally:
            for process in servers:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
            for process in servers:
                process.wait(timeout=60)
    return len([command for command in commands if command])


def main():
    # An end from outside ends the servers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    raidlab = pathlib.Path(sys.argv[1]).resolve()
    pages = sorted(["README.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))])
    pages.remove("docs/reference.md")  # forms of commands, not commands
    for page in pages:
        if fenced_commands(page) and page not in PAGES:
            sys.exit(f"{page} has commands: say in pages.toml how they are run")
    for page in sys.argv[2:] or PAGES:
        entry = PAGES[page]
        if "left_out" in entry:
            continue
        count = run_page(page, entry, raidlab)
        print(f"docs: {page}: {count} commands ended well")


main()
