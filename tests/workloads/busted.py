#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Positive control: a lock that does nothing must be caught, by every workload and by bench.

Arguments: hotlock, then the programs counter fcntl runqueue slab stat built with only that lock.
Whether two threads collide in one short run is chance, so each gets several.
"""
import os
import shutil
import sys
import tempfile

from tap import check, done, run

TRIES = 200
OPTIONS = {"counter": [], "counter fam": ["--op", "fam"], "slab": [],
           "slab run": ["--form", "run"], "runqueue": [],
           "stat": ["--files", 20, "--tally", 1], "fcntl": ["--tally", 1],
           "fcntl posix": ["--tally", 1, "--kind", "posix"]}

hotlock, programs = sys.argv[1], dict(zip(["counter", "fcntl", "runqueue", "slab", "stat"],
                                          sys.argv[2:]))


def caught(name, options):
    last = ""
    for _ in range(TRIES):
        r = run(programs[name.split()[0]], "--seconds", 0.3, "--threads", 4, *options)
        last = f"exit {r.returncode}: {r.stderr}"
        if r.returncode == 1 and "lock 'busted' does not exclude" in r.stderr and not r.stdout:
            return None
        if r.returncode not in (0, 1) and r.returncode > 0:
            break
    return last


for case, words in OPTIONS.items():
    check(f"{case} catches a lock that does nothing", caught(case, words))

# The command looks for workloads beside itself: put the broken one there.
with tempfile.TemporaryDirectory() as tree:
    os.makedirs(f"{tree}/src/cli")
    os.makedirs(f"{tree}/workloads")
    shutil.copy(hotlock, f"{tree}/src/cli/hotlock")
    shutil.copy(programs["counter"], f"{tree}/workloads/counter")
    answer = None
    for _ in range(TRIES):
        answer = run(f"{tree}/src/cli/hotlock", "bench", "--threads", 4, "--seconds", 0.3,
                     "--rounds", 2)
        if answer.returncode == 1:
            break
    good = answer.returncode == 1 and "busted is not ranked: lock 'busted'" in answer.stdout
    check("bench shows it without a rank, and why", None if good else answer)
done()
