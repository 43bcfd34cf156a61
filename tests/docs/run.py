#!/usr/bin/env python3
"""Runs the commands that the documents tell people to type, on small stand-ins.

    run.py RAIDLAB [--renew] [PAGE...]   the binary; pages by their path, all that pages.toml names by default

A page is read from its fenced blocks: each command that begins with `raidlab`, with the lines that continue it, in the order
of the page, in one scratch folder. `pages.toml` says for each page what is put into that folder first, and what takes the place
of devices, other hosts, long times and large sizes: (pattern, replacement), each of which must be of use. A command that ends
in `&` goes to the background, and its first line is waited for. Verified: each command ends well, or with a code that says what it found (`VERDICTS`).
A page with commands that pages.toml does not name is an error, unless its entry says why they are left out.

What a command prints stands in a block `text` right behind the command's own: its lines must be in the output, in that order
(`...` stands for others between them, and for the rest of a line). Words must agree. Figures must where the command ran as it is written and computes
what it prints (`COMPUTED`); `--renew` writes new ones into the page. Lines that differ in figures alone count once. Warnings of such
a command must stand there, too: a page does not show a result without what speaks against it. Left out: other output, which is the business of the tests of each crate; commands of other programs.
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
VERDICTS = {"--bound|--until|measure training": (0, 3), "array status": (0, 4)}
# Commands that print the same on every machine.
COMPUTED = r"raidlab (simulate|risk|plan|workloads|catalog) "


def expectations(page):
    """What the page says that commands print: the place of the command in the page, and the lines with their numbers."""
    found, count, fence, behind = {}, 0, None, False
    for number, line in enumerate((ROOT / page).read_text().splitlines()):
        if line.startswith("```"):
            if fence is not None:
                fence, behind = None, fence != "text"
            else:
                fence, expected = line[3:].strip(), []
                if fence == "text" and behind and count:
                    found[count - 1] = expected
            continue
        if fence is None:
            behind &= not line.strip()
        elif re.match(r"(\$ |sudo )?raidlab ", line):
            count += 1
        elif fence == "text" and line.strip() not in ("", "..."):
            expected.append((number, line))
    return found


def words(line):
    """A line without its figures, and without their units where these follow from the size."""
    line = re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?( (ns|us|ms|s|min|h|B|[KMGTP]iB|[kMGTP]?B)\b)?", "#", line)
    return re.sub(r"-{3,}", "---", " ".join(line.split()))


def compared(page, command, expected, said, is_exact):
    """The lines of the output that are the expected ones, by number; complains of one that is not there."""
    lines, at, before, found = said.splitlines(), 0, None, {}
    for number, line in expected:
        fits = (lambda it: it.startswith(words(line[:-3]))) if line.endswith("...") else words(line).__eq__
        same = next((index for index in range(at, len(lines)) if fits(words(lines[index]))), None)
        if same is None and words(line) == before:
            continue
        if same is None:
            sys.exit(f"{page}: the output has no line (here) like\n{line}\nof: {command}\n{said}")
        found[number] = lines[same]
        if line.endswith("..."):
            # As many words of it as the page has.
            found[number] = " ".join(lines[same].split()[: len(line[:-3].split())]) + " ..."
            found[number] = line[: len(line) - len(line.lstrip())] + found[number]
        if is_exact and " ".join(found[number].split()) != " ".join(line.split()):
            sys.exit(f"{page}: the page says\n{line}\nand it is\n{lines[same]}\nof: {command}\n(--renew writes this into the page)")
        at, before = same + 1, words(line)
    return found


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


def run_page(page, entry, raidlab, renews):
    written = fenced_commands(page)
    commands = replaced(page, list(written), entry.get("rules", []))
    expected = expectations(page)
    renewed = {}
    with tempfile.TemporaryDirectory(prefix="raidlab-docs.") as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "bin" / "raidlab").symlink_to(raidlab)
        for link in ("studies", "validation", "workloads", "papers", "crates"):
            (folder / link).symlink_to(ROOT / link)
        runtime = folder / "run"
        runtime.mkdir(mode=0o700)
        # Pages show what a terminal of this width does.
        environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", COLUMNS="110", XDG_RUNTIME_DIR=str(runtime))
        servers = []
        bash = ["bash", "-eu", "-o", "pipefail", "-c"]
        try:
            subprocess.run([*bash, entry.get("before", ":")], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
            for place, command in enumerate(commands):
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
                if place in expected:
                    computed = command == written[place] and re.match(COMPUTED, command + " ")
                    found = compared(page, command, expected[place], said.stdout + said.stderr, computed and not renews)
                    warned, shown = said.stderr.count("warning: "), sum("warning: " in line for _, line in expected[place])
                    if computed and warned > shown:
                        sys.exit(f"{page}: the page leaves out a warning of: {command}\n{said.stderr}")
                    renewed.update(found if computed else {})
                print(f"{page}: {time.monotonic() - began:5.1f} s  {command}", file=sys.stderr)
        finally:
            for process in servers:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
            for process in servers:
                process.wait(timeout=60)
    if renews:
        lines = (ROOT / page).read_text().splitlines(keepends=True)
        (ROOT / page).write_text("".join(renewed[number].rstrip() + "\n" if number in renewed else line for number, line in enumerate(lines)))
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
    named = [name for name in sys.argv[2:] if name != "--renew"]
    for page in named or PAGES:
        entry = PAGES[page]
        if "left_out" in entry:
            continue
        count = run_page(page, entry, raidlab, "--renew" in sys.argv)
        print(f"docs: {page}: {count} commands ended well")


main()
