"""Seconds from `pip install` to the first plot (docs/python.md): `python bench/python-first.py WHEEL [PYTHON]`.

In a fresh environment of PYTHON, or of this one: what the page has pip install, its first sample, and the report that a notebook then
shows; in processor time, too, as a busy machine takes longer. Packages come from the index that pip is set to, or from its cache.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
import time

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "python.md"
SHOWN = "\nassert '&lt;svg' in runs._repr_html_()\n"


def blocks(text):
    """The first command of the page, and its first sample."""
    parts = text.split("```")
    return parts[1].split(), next(part for part in parts if part.startswith("python\n")).removeprefix("python\n")


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    wheel, python = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else sys.executable
    words, sample = blocks(PAGE.read_text(encoding="utf-8"))
    install = [wheel if word.endswith(".whl") else word for word in words]
    with tempfile.TemporaryDirectory() as folder:
        inside = pathlib.Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "venv", folder], check=True)
        took = []
        for command in ([inside, "-m", *install], [inside, "-c", sample + SHOWN]):
            started, before = time.perf_counter(), processor_seconds()
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            took.append((time.perf_counter() - started, processor_seconds() - before))
        version = subprocess.run([inside, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    for what, (seconds, of_processor) in zip(["pip", "first sample and its plot"], took):
        print(f"{version}, {what}: {seconds:.0f} s, {of_processor:.0f} s of processor time")


if __name__ == "__main__":
    main()
