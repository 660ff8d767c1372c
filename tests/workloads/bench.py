#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hotlock bench: every form of the result, two locks by the second, bad input, interrupts.

Argument: hotlock.
"""
import csv
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.dom.minidom

from tap import PATIENCE, check, check_bad, done, result, run

BENCH = [sys.argv[1], "bench"]
QUICK = ["--locks", "tas,mcs,pthread_mutex", "--threads", "1,2", "--seconds", 0.03, "--rounds", 2]


def check_json():
    r, problem = result(*BENCH, "counter", *QUICK, "--json", "--", "--lines", 3)
    check("bench gives JSON", problem)
    cells = r["cells"]
    check("with its schema and conditions",
          None if (r["schema"] == "hotlock-bench/1" and r["options"] == ["--lines", "3"] and
                   r["partial"] is False and r["rounds"] == 2) else r)
    check("one cell per lock and number of threads",
          None if [(c["lock"], c["threads"]) for c in cells] ==
          [(lock, n) for n in (1, 2) for lock in ("tas", "mcs", "pthread_mutex")] else cells)
    check("each with a sample per round and the median between them",
          [c for c in cells if len(c["samples"]) != 2 or
           not min(c["samples"]) <= c["ops_per_s"] <= max(c["samples"])])
    check("the ratio of the mutex to itself is 1",
          [c for c in cells if c["lock"] == "pthread_mutex" and c["ratio"] != 1])
    check("libc's futex calls are unknown, ours are known",
          [c for c in cells if (c["futex_calls_per_s"] is None) != (c["lock"] == "pthread_mutex")])


def check_tables():
    r = run(*BENCH, "counter", *QUICK, "--csv")
    rows = list(csv.DictReader(io.StringIO(r.stdout)))
    check("CSV has a row per cell", None if len(rows) == 6 and
          all(float(row["ops_per_s"]) > 0 for row in rows) else r.stdout)
    r = run(*BENCH, *QUICK, "--markdown")
    check("Markdown has two tables per number of threads",
          None if r.stdout.count("|---|") == 4 and "### 2 threads" in r.stdout else r.stdout)
    r = run(*BENCH, "--locks", "all", "--threads", "8", "--seconds", 0.03, "--rounds", 2)
    check("text has at most 100 columns", [line for line in r.stdout.splitlines()
                                           if len(line) > 100])
    check("and one table of throughput, one of waiting", r.stdout if
          len(re.findall(r"^pthread_mutex ", r.stdout, re.M)) != 2 or r.returncode else None)
    r, problem = result(*BENCH, "counter", "--locks", "peers", "--op", "fam", "--threads", 2,
                        "--seconds", 0.03, "--rounds", 1, "--json")
    check("fetch-and-multiply brings the combining peers", problem or
          {"ccsynch", "flatcomb"} - {c["lock"] for c in r["cells"]})
    r, problem = result(*BENCH, "runqueue", "--locks", "tas:yield", "--threads", 2, "--rounds", 1,
                        "--json", "--", "--loops", 2, "--groups", 1)
    check("a workload with fixed work ends by itself", problem or
          (r["seconds"] != 0 or r["cells"][0]["lock"] != "tas:yield") and r)


def check_seconds():
    words = [*BENCH, "slab", "--org", "pthread_mutex", "--new", "ali", "--seconds", 1,
             "--rounds", 2, "--threads", 2]
    r = run(*words)
    lines = [line.split() for line in r.stdout.splitlines()]
    seconds = [line for line in lines if line and line[0] in ("1", "2")
               and all(word.isdigit() for word in line)]
    total = next((line for line in lines if line[:1] == ["Total"]), None)
    ratio = re.search(r"NEW/ORG ([0-9.]+)", r.stdout)
    good = (r.returncode == 0 and len(seconds) == 2 and total and ratio and
            [int(t) for t in total[1:]] ==
            [sum(int(s[column]) for s in seconds) for column in (1, 2)] and
            abs(float(ratio[1]) - int(total[2]) / int(total[1])) < 0.001)
    check("two locks by the second: columns add up to the totals and the ratio",
          None if good else r)


def check_files():
    with tempfile.TemporaryDirectory() as place:
        r = run(*BENCH, *QUICK, "--csv", "-o", f"{place}/out.csv")
        rows = open(f"{place}/out.csv", encoding="utf-8").read().splitlines()
        check("-o writes the form asked and prints the text",
              None if len(rows) == 7 and "workload counter" in r.stdout else r)
        if not shutil.which("gnuplot"):
            return
        r = run(*BENCH, *QUICK, "--svg", f"{place}/plot.svg")
        picture = open(f"{place}/plot.svg", encoding="utf-8").read()
        xml.dom.minidom.parseString(picture)
        check("--svg draws a curve per lock", [lock for lock in ("tas", "mcs", "pthread_mutex")
                                               if f">{lock}<" not in picture])
        check("and leaves nothing else behind", set(os.listdir(place)) - {"out.csv", "plot.svg"})


def check_bad_input():
    check_bad("unknown workload", "nearest is 'counter'", *BENCH, "conuter")
    check_bad("unknown lock", "nearest is 'qspin'", *BENCH, "--locks", "tas,qsipn")
    check_bad("unknown policy", "nearest is 'park'", *BENCH, "--locks", "tas:prak")
    check_bad("empty item", "empty item", *BENCH, "--locks", "tas,,mcs")
    check_bad("no threads", "--threads '0'", *BENCH, "--threads", "1,0")
    check_bad("words for threads", "--threads 'abc'", *BENCH, "--threads", "abc")
    check_bad("no rounds", "--rounds '0'", *BENCH, "--rounds", 0)
    check_bad("no time", "--seconds '-1'", *BENCH, "--seconds=-1")
    check_bad("unknown option", "nearest is '--rounds'", *BENCH, "--ruonds", 3)
    check_bad("bad option of the workload", "--think 'x'", *BENCH, "--think", "x")
    check_bad("option the workload lacks", "--think", *BENCH, "slab", "--think", 3)
    check_bad("org alone", "--new", *BENCH, "--org", "tas")
    check_bad("org twice the same", "'tas'", *BENCH, "--org", "tas", "--new", "tas")
    check_bad("org with many threads", "'1,2'", *BENCH, "--org", "tas", "--new", "mcs", "--threads",
              "1,2")
    check_bad("org below a second", "whole second", *BENCH, "--org", "tas", "--new", "mcs",
              "--seconds", 0.5)
    check_bad("pair with threads", "--threads", *BENCH, "pair", "--threads", 2)
    check_bad("no place for the picture", "/nowhere", *BENCH, "--svg", "/nowhere/x.svg")
    check_bad("no place for the result", "/nowhere", *BENCH, "-o", "/nowhere/x")


def descendants(pid):
    """Every process below pid, as /proc has it now."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    below = {pid}
    while more := {p for p, parent in parents.items() if parent in below} - below:
        below |= more
    return below - {pid}


def runs_counter(pid):
    for child in descendants(pid):
        try:
            if os.path.basename(os.readlink(f"/proc/{child}/exe")) == "counter":
                return True
        except OSError:
            continue
    return False


def check_interrupt():
    child = subprocess.Popen([*BENCH, "--locks", "tas,mcs", "--threads", "2", "--seconds", "20",
                              "--rounds", "3", "--json"], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    until = time.monotonic() + PATIENCE
    while not runs_counter(child.pid) and time.monotonic() < until and child.poll() is None:
        os.sched_yield()
    below = descendants(child.pid)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    left = [p for p in below if os.path.exists(f"/proc/{p}")]
    check("an interrupt gives a partial result, exit 130 and no orphan",
          None if child.returncode == 130 and '"partial": true' in out and not err and not left
          else f"exit {child.returncode}, left {left}: {out}{err}")


check_json()
check_tables()
check_seconds()
check_files()
check_bad_input()
r = run(*BENCH, "slab", "--", "--help")
check("-- --help is the workload's", None if r.returncode == 0 and "--burst" in r.stdout else r)
r, problem = result(*BENCH, "pair", "--seconds", 0.05, "--rounds", 2, "--locks", "mcs,ck_mcs",
                    "--json")
check("bench pair compares with the reference",
      problem or {row["lock"] for row in r["locks"]} - {"empty loop", "exchange+store", "mcs",
                                                        "ck_mcs"})
check_interrupt()
done()
