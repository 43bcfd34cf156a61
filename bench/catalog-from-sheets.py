#!/usr/bin/env python3
"""Entries of the catalogue from validation/drive-sheets.tsv, each by `raidlab model from-sheet`.

usage: bench/catalog-from-sheets.py RAIDLAB [ID...]

Writes catalog/drives/ID.toml for every row, or for those named, and ends with 1 if a row makes no entry. RAIDLAB is the program,
built without the entries that are written anew: an entry that it has already is a name that is taken, so ids are made under
another name first. crates/model/calibrate/tests/sheets.rs holds the entries to the table.
"""
import csv
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "validation/drive-sheets.tsv"
DRIVES = ROOT / "catalog/drives"

# Rows without an entry, and why (validation/drive-sheets.md).
LEFT_OUT = {
    "micron-9200-max-6400": "its random writes come out 4 % too slow: programs decide both them and the stream",
    "phison-d205v-122880": "the block of its writes is unknown",
    "samsung-970-pro-1000": "nvmevirt-970-pro is this drive",
    "seagate-exos-2x18-sata-18000": "exos-2x18-18tb is this drive",
    "seagate-exos-x24-24000": "exos-x24-24tb is this drive",
    "seagate-nytro-3332-7680": "no rate but one is known",
    "toshiba-ma11-28000": "no rate is known",
}

# Column, option, and what stands behind its number.
COLUMNS = [
    ("capacity", "capacity", ""),
    ("interface", "interface", ""),
    ("year", "year", ""),
    ("seq_read_mb_s", "seq-read", "MB/s"),
    ("seq_write_mb_s", "seq-write", "MB/s"),
    ("read_iops", "read-iops", ""),
    ("write_iops", "write-iops", ""),
    ("iops_block", "write-block", ""),
    ("slc_cache_gb", "slc-cache", "GB"),
    ("slc_fixed_gb", "slc-fixed", "GB"),
    ("seq_write_sustained_mb_s", "seq-write-sustained", "MB/s"),
    ("read_latency_us", "read-latency", "us"),
    ("write_latency_us", "write-latency", "us"),
    ("indirection_unit", "unit", ""),
    ("nand", "nand", ""),
    ("rpm", "rpm", ""),
    ("heads", "heads", ""),
    ("cache_mb", "cache", "MiB"),
    ("seek_read_ms", "seek-read", "ms"),
    ("seek_write_ms", "seek-write", "ms"),
    ("actuators", "actuators", ""),
    ("recording", "recording", ""),
    ("active_w", "active-power", ""),
    ("idle_w", "idle-power", ""),
    ("mtbf_million_h", "mtbf", "M"),
    ("afr_pct", "afr", ""),
    ("uber_bits", "read-errors", ""),
    ("dwpd", "dwpd", ""),
    ("tbw_tb", "rated-writes", "TB"),
]

# Figures that are the best of the row's family (validation/drive-sheets.md, Family maxima).
RATES = ["seq-read", "seq-write", "read-iops", "write-iops"]
AT_MOST = {
    "intel-p5500-7680": RATES,
    "intel-p5600-6400": RATES,
    "samsung-pm1735-6400": RATES,
    "kioxia-cm6-v-3200": RATES,
    "kioxia-lc9-122880": ["read-iops"],
    "kioxia-cm7-r-7680": ["seq-read"],
    "micron-9200-max-6400": RATES,
    "micron-7450-pro-7680": ["seq-read", "seq-write", "read-iops"],
    "micron-9400-pro-7680": ["read-iops"],
    "samsung-pm1743-7680": RATES,
    "intel-s4500-3840": [*RATES, "read-latency", "write-latency", "active-power", "idle-power", "rated-writes"],
    "intel-s4600-1920": [*RATES, "read-latency", "write-latency", "active-power", "idle-power"],
    "micron-5400-pro-3840": RATES,
    "micron-5400-max-1920": RATES,
    "samsung-pm1643a-3840": RATES,
    "samsung-pm1653-7680": RATES,
    "kioxia-pm6-r-7680": ["seq-read"],
    "samsung-pm1733-7680": RATES,
    "samsung-pm9a3-e1s-7680": RATES,
    "samsung-pm9a3-m2-3840": RATES,
    "micron-7400-pro-7680": RATES,
    "micron-7400-pro-m2-3840": RATES,
    "solidigm-p5430-30720": RATES,
    "kioxia-cd8-r-7680": RATES,
    "kioxia-cd6-v-6400": RATES,
}

# Years for which drive writes a day are counted where it is not five.
DWPD_YEARS = {"samsung-pm983-3840": 3}


def options(row):
    """The command's options for a row of the table."""
    is_disk = row["kind"] == "hdd"
    estimated = set(row["estimated"].split(",")) - {""}
    given = {}
    for column, option, unit in COLUMNS:
        value = row[column]
        # A disk writes at the rate at which it reads, its actuators are arms and its cache memory; that of flash is none.
        if not value or (is_disk and option in ("seq-write", "write-block")) or (not is_disk and option == "cache"):
            continue
        if option == "nand" and value == "pslc":
            value = "slc"
        given[option] = value + unit
    if row["kind"] != "hdd" and row["slc_cache_gb"] and "read-errors" not in given:
        given["read-errors"] = "1e16"
        estimated.add("uber_bits")
    if row["id"] in DWPD_YEARS:
        given["dwpd"] = f"{float(given['dwpd']) * DWPD_YEARS[row['id']] / 5:.3g}"
    if "rated-writes" in given:
        given.pop("dwpd", None)
    if "afr" in given:
        given.pop("mtbf", None)
    args = ["--kind", row["kind"], "--name", row["name"]]
    for option, value in given.items():
        args += [f"--{option}", value]
    recalled = [option for column, option, _ in COLUMNS if column in estimated and option in given]
    recalled = [option for option in recalled if option != "slc-fixed"]
    at_most = [option for option in AT_MOST.get(row["id"], []) if option in given and option not in recalled]
    for option, names in (("--estimated", recalled), ("--at-most", at_most)):
        if names:
            args += [option, ",".join(names)]
    source = row["source"]
    if source.startswith("no sheet retrieved"):
        source = "capacity and interface by the name of the model; no sheet was retrieved"
    return [*args, "--source", source]


def with_shapes(entry, before):
    """The entry with the shapes that it had: the table has none."""
    shapes = [line + "\n" for line in before.splitlines() if line.startswith("form_factor = ")]
    head, year, rest = entry.partition("year = ")
    return head + "".join(shapes) + year + rest


def main():
    raidlab, wanted = sys.argv[1], sys.argv[2:]
    failed = []
    with TABLE.open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    for row in rows:
        name = row["id"]
        if name in LEFT_OUT or wanted and name not in wanted:
            continue
        made = subprocess.run(
            [raidlab, "model", "from-sheet", *options(row), "--id", f"new-{name}"], capture_output=True, text=True
        )
        if made.returncode:
            failed.append(name)
            print(f"{name}: {made.stderr.strip()}")
            continue
        entry = "".join(line + "\n" for line in made.stdout.splitlines() if not line.startswith("# "))
        entry = entry.replace(f'id = "new-{name}"', f'id = "{name}"')
        path = DRIVES / f"{name}.toml"
        path.write_text(with_shapes(entry, path.read_text() if path.exists() else ""))
    print(f"{len(failed)} rows made no entry")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
