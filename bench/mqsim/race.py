#!/usr/bin/env python3
"""Runs MQSim's scenarios and the same here, by turns, and prints one line for each.

    race.py MQSIM_FOLDER RAIDLAB WORK_FOLDER ROUNDS
"""

import json
import pathlib
import re
import resource
import subprocess
import sys

MQSIM, RAIDLAB, WORK = (pathlib.Path(path) for path in sys.argv[1:4])
ROUNDS = int(sys.argv[4])
ARRAY = "--drive mqsim --level jbod --members 1 --controller linux-md-nvme --write-policy write-through".split()
# MQSim writes to a drive that holds nothing (Enabled_Preconditioning is false), so half a page is written without reading the other
# half; what it reads it takes to be there.
FRESH, FULL = ["--condition", "fresh"], ["--condition", "sequential", "--fill", "75"]
SCENARIOS = [  # name, number in workload.xml, depth of all flows together or the trace, condition of the drive
    ("writes", 0, 18, FRESH),
    ("reads", 1, 32, FULL),
    ("tpcc-small", 2, "tpcc-small", FULL),
    ("wsrch-small", 2, "wsrch-small", FULL),
]


def user_seconds(command, **options):
    """Output of a command, and the processor time that it took as a user."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ended = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    return ended.stdout, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def theirs(config, scenario, load):
    """Requests, requests a second, mean response in us, and seconds of MQSim."""
    text = (MQSIM / "workload.xml").read_text()
    body = re.findall(r"<IO_Scenario>.*?</IO_Scenario>", text, re.S)[scenario]
    if isinstance(load, str):
        body = body.replace("tpcc-small", load)
    file = MQSIM / "raced.xml"
    file.write_text(f'<?xml version="1.0" encoding="us-ascii"?>\n<MQSim_IO_Scenarios>\n{body}\n</MQSim_IO_Scenarios>\n')
    _, seconds = user_seconds(["./MQSim", "-i", config, "-w", file.name], cwd=MQSIM)
    found = (MQSIM / "raced_scenario_1.xml").read_text()
    flows = [dict(re.findall(r"<(\w+)>([^<]*)</\1>", flow))
             for flow in re.findall(r"<Host.IO_Flow>(.*?)</Host.IO_Flow>", found, re.S)]
    count = sum(int(flow["Request_Count"]) for flow in flows)
    mean = sum(int(flow["Request_Count"]) * float(flow["Device_Response_Time"]) for flow in flows) / count
    return count, sum(float(flow["IOPS"]) for flow in flows), mean, seconds


def ours(name, load, condition):
    """The same of raidlab."""
    command = [str(RAIDLAB), "simulate", "--catalog", "drive.toml", *ARRAY, *condition, "--bottleneck", "off", "--json"]
    if isinstance(load, str):
        trace = (MQSIM / "traces" / f"{load}.trace").read_text().split("\n")
        rows = (line.split() for line in trace if line.strip())
        lines = (f"{int(row[0]) / 1e6:.6f} 0 {row[2]} {row[3]} {row[4]}\n" for row in rows)
        (WORK / f"{load}.txt").write_text("".join(lines))
        subprocess.run([str(RAIDLAB), "import", "trace", "--format", "disksim", f"{load}.txt", "-o", f"{load}.parquet"],
                       check=True, cwd=WORK, capture_output=True)
        command += ["--trace", f"{load}.parquet"]
    else:
        command += ["--region", "255GB", "-w", f"{name}.toml", "--iodepth", str(load), "--ramp", "0s", "--run", "10s"]
    out, seconds = user_seconds(command, cwd=WORK)
    (WORK / f"{load}.parquet").unlink(missing_ok=True)
    total = json.loads(out)["runs"][0]["total"]
    return total["requests"], total["iops"], total["lat_ns_mean"] / 1e3, seconds


print(f"{'':<12} {'MQSim':>27}   {'its whole map in memory':>27}   {'raidlab':>27}   {'off':>11}  {'times as':>8}")
print(f"{'':<12} " + "   ".join([f"{'requests/s':>10} {'mean us':>8} {'us CPU':>7}"] * 3) + f"   {'rate':>5} {'mean':>5}  {'fast':>8}")
for _ in range(ROUNDS):
    for name, scenario, load, condition in SCENARIOS:
        runs = [theirs("ssdconfig.xml", scenario, load)]
        ideal = (MQSIM / "ssdconfig.xml").read_text().replace("<Ideal_Mapping_Table>false", "<Ideal_Mapping_Table>true")
        (MQSIM / "ideal.xml").write_text(ideal)
        runs += [theirs("ideal.xml", scenario, load), ours(name, load, condition)]
        columns = "   ".join(f"{rate:>10,.0f} {mean:>8.0f} {seconds / count * 1e6:>7.2f}" for count, rate, mean, seconds in runs)
        (count, rate, mean, seconds), (our_count, our_rate, our_mean, our_seconds) = runs[1:]
        # A trace gives the rate; MQSim counts from time 0 and not from its first request.
        off = f"{'':>5}" if isinstance(load, str) else f"{our_rate / rate - 1:>+5.0%}"
        print(f"{name:<12} {columns}   {off} {our_mean / mean - 1:>+5.0%}"
              f"  {seconds / count / (our_seconds / our_count):>8.1f}", flush=True)
