"""The notebooks of docs/notebooks run, cell by cell, and what a cell ends with shows itself. `make notebooks` does it in Jupyter."""

import ast
import json
import os
import runpy
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot
import pytest

matplotlib.use("Agg")

NOTEBOOKS = Path(os.environ["NOTEBOOKS"])
SHORTER = {
    "database": [("simulations=4", "simulations=2"), ("trials=2000", "trials=200")],
    "interference": [("shares = [100, 90, 70, 50, 30, 10]", "shares = [100, 50, 10]"), ("[1, 4, 16, 64]", "[1, 16]")],
    "reproduce": [('table="1")', 'table="1", ramp="1s", run="2s")')],
    "thousand-arrays": [("COUNT = 20", "COUNT = 6"), ("dashboard_address=None", "dashboard_address=None, processes=False")],
    "write-hole": [],
    "write-penalty": [('run="10s"', 'run="1s"')],
}
"""What is done less often, or for less long: text of the notebook, and what stands there instead."""


def test_every_notebook_is_known():
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == sorted(SHORTER)


@pytest.mark.parametrize("name", SHORTER)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\0".join("".join(cell["source"]) for cell in cells(name))
    for long, short in SHORTER[name]:
        assert long in text, f"{name} has no {long} any more"
        text = text.replace(long, short)
    variables = {"__name__": "notebook"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, source in enumerate(text.split("\0"), 1):
            show(run(source, f"{name}, cell {number}", variables))
    matplotlib.pyplot.close("all")


def test_a_thousand_arrays_are_so_many():
    source = "".join(cells("thousand-arrays")[0]["source"])
    variables = {}
    run(source.replace("COUNT = 20", "COUNT = 1000"), "thousand-arrays, cell 1", variables)
    assert len(set(variables["arrays"])) == 1000
    for array in variables["arrays"][::30]:
        array.label()


def test_what_the_bench_of_the_first_plot_does_is_on_the_page():
    bench = runpy.run_path(str(NOTEBOOKS.parent.parent / "bench" / "python-first.py"))
    words, sample = bench["blocks"](bench["PAGE"].read_text(encoding="utf-8"))
    assert words[:3] == ["pip", "install", "raidlab-*.whl"]
    short = sample.replace("seed=1", 'seed=1, ramp="10ms", run="200ms"')
    assert short != sample
    exec(short + bench["SHOWN"], {})


def cells(name):
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(source, name, variables):
    """Runs a cell; the value of the expression that it ends with."""
    tree = ast.parse(source, name)
    ends = isinstance(tree.body[-1], ast.Expr)
    last = tree.body.pop() if ends else None
    exec(compile(tree, name, "exec"), variables)
    return eval(compile(ast.Expression(last.value), name, "eval"), variables) if last else None


def show(value):
    looks = getattr(value, "_repr_html_", lambda: repr(value))()
    assert looks or value is None
