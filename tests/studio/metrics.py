"""The metrics of an array as Prometheus reads them, and the Grafana dashboard that is made of them.

usage: metrics.py PROGRAM

An array is made on files and served with --metrics. promtool checks what it says; each query of
packaging/grafana/raidlab-arrays.json must be one that Prometheus can read, of metrics that were served.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

PROMTOOL = "target/prometheus/usr/bin/promtool"
DASHBOARD = "packaging/grafana/raidlab-arrays.json"


def served(program, folder):
    """The metrics of an array that is served, as the text of Prometheus 0.0.4 for promtool."""
    array = [program, "array"]
    members = [os.path.join(folder, f"d{number}") for number in range(4)]
    subprocess.run([*array, "create", "metrics", *members, "--level", "5", "--member-size", "24MiB"], check=True,
                   stdout=subprocess.DEVNULL)
    serve = [*array, "serve", *members, "--socket", f"{folder}/n.sock", "--control", f"{folder}/c.sock",
             "--metrics", "127.0.0.1:0", "--json"]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    try:
        text = ""
        for line in process.stdout:
            text += line
            if line == "}\n":
                break
        address = json.loads(text)["metrics"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
            kind = response.headers["content-type"]
            assert kind.startswith("application/openmetrics-text"), kind
            return response.read().decode()
    finally:
        process.terminate()
        assert process.wait(60) == 0


def main():
    with tempfile.TemporaryDirectory(prefix="studio-metrics-", dir=os.path.dirname(os.path.abspath(sys.argv[1]))) as folder:
        text = served(os.path.abspath(sys.argv[1]), folder)
    assert text.endswith("# EOF\n"), "OpenMetrics ends so"
    # promtool reads the older form, in which a counter's family has the name of its sample.
    lines = [line for line in text.splitlines() if line != "# EOF" and not line.startswith("# UNIT")]
    counters = {line.split()[2] for line in lines if line.startswith("# TYPE") and line.endswith(" counter")}
    older = [re.sub(r"^(# (?:HELP|TYPE) )(\S+)", lambda m: m[1] + m[2] + ("_total" if m[2] in counters else ""), line) for line in lines]
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input="\n".join(older) + "\n", text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    names = {re.match(r"\w+", line)[0] for line in lines if not line.startswith("#")}

    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 15, queries
    used = set()
    for query in queries:
        used |= set(re.findall(r"raidlab_\w+", query))
    assert used <= names, f"not served: {sorted(used - names)}"
    plain = [query.replace("$__rate_interval", "5m").replace("$array", ".*") for query in queries]
    rules = {"groups": [{"name": "dashboard", "rules": [{"record": f"query:{number}", "expr": query} for number, query in enumerate(plain)]}]}
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        # JSON is YAML, too.
        json.dump(rules, file)
        file.flush()
        checked = subprocess.run([PROMTOOL, "check", "rules", file.name], text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    print(f"metrics: {len(names)} of them, and {len(queries)} queries of the dashboard, as Prometheus reads them")


main()
