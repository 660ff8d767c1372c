#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""command HOTLOCK: hotlock kernel prints what kernel/check leaves, keeps its exit code, and nothing outlives it.

A script stands in for kernel/check; no kernel is built. TAP on stdout.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads"))
sys.dont_write_bytecode = True
from tap import check, done  # noqa: E402

BOOTS = [{"name": "4", "processors": 4, "seconds": 31, "reason": None, "log": "x"},
         {"name": "8", "processors": 8, "seconds": 95, "reason": None, "log": "y"}]
TORTURE = {"spin_lock": "SUCCESS, 120 sections, 0 failed"}
RESULTS = {
    "schema": "hotlock-kernel/1", "emulated": True, "complete": True,
    "gates": [{"variant": "queued", "passed": True, "boots": BOOTS, "torture": TORTURE},
              {"variant": "ali", "passed": False, "torture": {},
               "boots": [dict(BOOTS[0], reason="the kernel said: BUG: x")]}],
    "counts": [{"variant": "queued", "same": True,
                "counts": {"hackbench": 20000000, "stat": 10000000}},
               {"variant": "ali", "same": False,
                "counts": {"hackbench": 20100000, "stat": 9000000}}],
    "text": [{"variant": "queued-calls", "bytes": 1000000, "counts": {"spin": 4000000}},
             {"variant": "queued", "bytes": 1025000, "counts": {"spin": 3000000}},
             {"variant": "nmcs-calls", "bytes": 1100000, "counts": {"spin": 5000000}},
             {"variant": "nmcs", "bytes": 1111000, "counts": {"spin": 5100000}}],
    "samples": [],
}
STUB = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --results ] && out=$2; echo "$1" >>"$0.seen"; shift; done
%s
"""


class Place:
    """A hotlock with another kernel/check."""

    def __init__(self, folder):
        self.folder = folder
        self.hotlock = os.path.join(folder, "bin", "hotlock")
        self.check = os.path.join(folder, "share", "hotlock", "kernel", "check")
        for path in (self.hotlock, self.check):
            os.makedirs(os.path.dirname(path))
        shutil.copy(sys.argv[1], self.hotlock)

    def stub(self, results, end):
        lines = [end]
        if results is not None:
            canned = os.path.join(self.folder, "canned.json")
            with open(canned, "w", encoding="utf-8") as f:
                json.dump(results, f)
            lines.insert(0, f'cp {canned} "$out"')
        with open(self.check, "w", encoding="utf-8") as f:
            f.write(STUB % "\n".join(lines))
        os.chmod(self.check, 0o755)

    def start(self, *options):
        return subprocess.Popen([self.hotlock, "kernel", "--build",
                                 os.path.join(self.folder, "build"), *options], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *options):
        p = self.start(*options)
        out, err = p.communicate(timeout=60)
        return p.returncode, out, err


def missing(text, *wanted):
    absent = [w for w in wanted if w not in text]
    return f"no {absent} in:\n{text}" if absent else None


def tables(place):
    place.stub(RESULTS, "exit 1")
    code, out, _ = place.run()
    check("the exit code is kernel/check's", None if code == 1 else f"exit {code}")
    check("gates, counts and text are printed", missing(
        out, "4: 31, 8: 95", "pass", "FAIL", "BUG: x", "SUCCESS, 120 sections", "20.000 M", "+0.50 %",
        "-10.00 %", "1025000", "+25000 (+2.50 %)", "-25.00 %", "+11000 (+1.00 %)", "+2.00 %", "no ranking of speed"))
    check("no line is wider than 100", next((li for li in out.split("\n") if len(li) > 100), None))
    code, out, _ = place.run("--json")
    check("--json is the results", None if json.loads(out) == RESULTS else out)
    code, out, _ = place.run("--csv")
    check("--csv has plain numbers", missing(out, "queued,20000000,10000000,"))
    place.stub(dict(RESULTS, complete=False), "exit 1")
    check("a part is called a part", missing(place.run()[1], "This is a part of the results"))


def speed(place):
    rows = [{"variant": v, "round": r, "spin": (100 + r) * (1 if v == "queued" else 2)}
            for r in range(1, 8) for v in ("queued", "nmcs")]
    place.stub(dict(RESULTS, gates=[], counts=[], text=[], emulated=False, samples=rows), "exit 0")
    code, out, _ = place.run("--kvm", "--rounds", "7")
    row = next((li for li in out.split("\n") if li.startswith("nmcs")), "")
    check("with --kvm there are ratios and intervals", missing(row, "spin", "208", "2.000"))
    check("and no word about emulation", "emulation" in out and out)
    with open(place.check + ".seen", encoding="utf-8") as f:
        check("options are handed on", missing(f.read(), "--kvm\n", "--rounds\n7\n"))


def bad(place):
    place.stub(None, 'echo "hotlock kernel: no space" >&2; exit 2')
    code, out, err = place.run()
    check("bad input: its line, its exit code, no table",
          None if (code, out, err) == (2, "", "hotlock kernel: no space\n") else f"{code} {out}{err}")
    place.stub(dict(RESULTS, complete=False), "kill -KILL $$")
    code, out, err = place.run()
    check("killed: one line that says so, exit 1, a part of the results",
          None if code == 1 and err.count("\n") == 1 and "killed by SIGKILL" in err and
          "a part of the results" in out else f"{code} {out}{err}")
    code, out, err = place.run("--seconds", "x")
    check("a bad number is one line", None if code == 2 and err.count("\n") == 1 else err)
    code, out, err = place.run("nmcs")
    check("a stray word is one line", missing(err, "unexpected word 'nmcs'"))


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def outlives(place, number):
    """A grandchild that ignores every signal it can, as a hung QEMU might."""
    pid_file = os.path.join(place.folder, f"pid{number}")
    place.stub(dict(RESULTS, complete=False),
               f"setsid sh -c 'trap \"\" TERM INT HUP; echo $$ >{pid_file}.new; "
               f"mv {pid_file}.new {pid_file}; while :; do sleep 1; done' & wait")
    half = os.path.join(place.folder, "build", "linux-half")
    os.makedirs(os.path.join(half, "new", "mm"), exist_ok=True)
    p = place.start()
    until = time.monotonic() + 60
    while not os.path.exists(pid_file) and time.monotonic() < until:
        time.sleep(0.01)  # polls for the file: it is the signal that the child runs
    with open(pid_file, encoding="utf-8") as f:
        pid = int(f.read())
    p.send_signal(number)
    out, _ = p.communicate(timeout=60)
    while not gone(pid) and time.monotonic() < until:
        time.sleep(0.01)
    name = signal.Signals(number).name
    check(f"after {name} nothing is left running", None if gone(pid) else f"{pid} runs")
    if number != signal.SIGKILL:
        check(f"after {name} no tree is left half patched", os.path.exists(half) and half)
        check(f"{name}: exit 130, and a part of the results",
              None if p.returncode == 130 and "a part of the results" in out else
              f"{p.returncode}: {out}")


with tempfile.TemporaryDirectory() as folder:
    place = Place(folder)
    tables(place)
    speed(place)
    bad(place)
    outlives(place, signal.SIGINT)
    outlives(place, signal.SIGTERM)
    outlives(place, signal.SIGKILL)
done()
