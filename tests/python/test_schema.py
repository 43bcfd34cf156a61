"""Answers of the program have the form that their schema says."""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

RAIDLAB = os.environ["RAIDLAB"]

# A short run of the verbs that need no device, no root and no server.
COMMANDS = {
    "catalog": ["catalog", "--kind", "nvme"],
    "catalog entry": ["catalog", "exos-x24-24tb"],
    "workloads": ["workloads"],
    "workload": ["workloads", "storagebench-database"],
    "simulate": "simulate --level 5 --members 5 --drive st3600057ss --controller perc-h800 -w storagebench-database --run 1s --ramp 0s".split(),
    "measure": "measure t.dat --size 8MiB -w storagebench-database --iodepth 1..2 --run 200ms --ramp 0s --db r.sqlite".split(),
    "plan": (
        "plan --app md1200-oltp --usable 1TB --iops 500 --drives st3600057ss --controllers perc-h800 --enclosures md1200 --simulations 2 --top 1"
    ).split(),
    "risk": "risk --level 6 --members 8 --drive exos-x24-24tb".split(),
    "reproduce": "reproduce md1200-2011".split() + ["--table", "Table 12"],
    "reproduce list": ["reproduce", "list"],
    "runs": "runs --db r.sqlite".split(),
    "show": "show 1 --db r.sqlite".split(),
    "compare": "compare 1 2 --db r.sqlite".split(),
    "doctor": ["doctor"],
    "import fio": ["import", "fio", "job.fio"],
    "array create": "array create a0 m0 m1 m2 --level 5 --member-size 8MiB".split(),
    "array assemble": "array assemble m0 m1 m2".split(),
    "torture": "torture --seed 1 --seeds 2 --ops 200".split(),
    "observe": "observe . --time 1s".split(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("answers")
    (place / "job.fio").write_text("[a]\nrw=randread\nbs=4k\nsize=1m\nfilename=x\n")
    return place


@pytest.mark.parametrize("name", COMMANDS)
def test_answers_have_their_form(name: str, folder: Path) -> None:
    command = COMMANDS[name]
    done = subprocess.run([RAIDLAB, *command, "--json"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    verb = next(verb for verb in (command[:2], command[:1]) if has_schema(verb))
    schema = json.loads(subprocess.check_output([RAIDLAB, "reference", "schema", *verb]))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(answer, schema, jsonschema.Draft202012Validator)
    # A schema that takes anything proves nothing.
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": 1}, schema, jsonschema.Draft202012Validator)


def has_schema(verb: list[str]) -> bool:
    return subprocess.run([RAIDLAB, "reference", "schema", *verb], capture_output=True).returncode == 0
