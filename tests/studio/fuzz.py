"""Fuzzes the studio's API from its own description with schemathesis. SECONDS bounds the time; the seed is fixed unless it
is given.

usage: fuzz.py PROGRAM [SECONDS [SEED]]

What is asked for is really done, in a folder of its own: jobs measure, soak and make arrays there. No file can grow beyond
64 MiB (a limit of the process), so that nothing fills the disk.
"""

import os
import resource
import subprocess
import sys
import tempfile

from server import Studio

FILE_BYTES_MAX = 64 << 20
# What a valid request can meet here is a state that refuses it, so a refusal of valid data is no fault.
LEFT_OUT = "positive_data_acceptance,ensure_resource_availability,use_after_free"


def main():
    program, seconds = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "25"
    seed = sys.argv[3] if len(sys.argv) > 3 else "2026"
    tool = os.path.abspath("target/schemathesis/bin/st")
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))
    with tempfile.TemporaryDirectory(prefix="studio-fuzz-") as folder, Studio(program, folder) as studio:
        command = [tool, "run", f"{studio.base}/api/openapi.json", "--header", f"Authorization: Bearer {studio.token}",
                   "--checks", "all", "--exclude-checks", LEFT_OUT, "--phases", "examples,coverage,fuzzing",
                   "--max-time", seconds, "--seed", seed, "--suppress-health-check", "all", "--warnings", "off",
                   "--request-timeout", "90", "--continue-on-failure", "--no-color"]
        ended = subprocess.run(command, cwd=folder, env={**os.environ, "SCHEMATHESIS_HOOKS": ""}, check=False)
        alive, _ = studio.ask("GET", "/api/studio")
    print(f"the studio answered with {alive} afterwards")
    sys.exit(0 if ended.returncode == 0 and alive == 200 else 1)


main()
